//! The rules, one by one.

use std::os::unix::ffi::OsStringExt;

use super::*;

fn linux(home: &str) -> Environment {
    let home = Some(home.into());
    Environment { platform: Platform::Linux, home, ..Environment::empty() }
}

fn with_runtime(environment: Environment) -> Environment {
    Environment {
        xdg_runtime_dir: Some("/run/user/1000".into()),
        runtime_is_private: true,
        ..environment
    }
}

fn places(environment: &Environment, home: Option<&str>) -> (String, String) {
    let places = environment.places(home.map(Path::new)).unwrap();
    let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
    (text(places.data), text(places.socket))
}

#[test]
fn the_desktop_decides_where_nobody_chose() {
    let plain = linux("/home/ann");
    assert_eq!(
        places(&plain, None),
        (
            "/home/ann/.local/share/tidings".into(),
            "/home/ann/.local/state/tidings/run/tidings.sock".into()
        )
    );
    let (data, socket) = places(&with_runtime(plain.clone()), None);
    assert_eq!(data, "/home/ann/.local/share/tidings");
    assert_eq!(socket, "/run/user/1000/tidings/tidings.sock");

    let foreign = Environment { runtime_is_private: false, ..with_runtime(plain.clone()) };
    assert_eq!(places(&foreign, None).1, places(&plain, None).1, "not ours, so not used");

    let mac = Environment { platform: Platform::MacOs, ..linux("/Users/ann") };
    let data = "/Users/ann/Library/Application Support/Tidings";
    assert_eq!(places(&mac, None), (data.into(), format!("{data}/tidings.sock")));
}

#[test]
fn a_chosen_home_holds_everything() {
    let both = ("/srv/t".to_owned(), "/srv/t/tidings.sock".to_owned());
    let plain = with_runtime(linux("/home/ann"));
    assert_eq!(places(&plain, Some("/srv/t/")), both);
    let variable = Environment { tidings_home: Some("/srv//t/.".into()), ..plain.clone() };
    assert_eq!(places(&variable, None), both);
    assert_eq!(places(&variable, Some("/srv/u")).0, "/srv/u", "the argument counts first");
    let nowhere = Environment { home: None, ..plain };
    assert_eq!(places(&nowhere, Some("/srv/t")), both, "HOME is not needed");
}

#[test]
fn a_chosen_socket_counts_unless_a_home_was_typed() {
    let chosen = Environment {
        tidings_home: Some("/srv/t".into()),
        tidings_socket: Some("/srv/s.sock".into()),
        ..linux("/home/ann")
    };
    assert_eq!(places(&chosen, None), ("/srv/t".into(), "/srv/s.sock".into()));
    assert_eq!(places(&chosen, Some("/srv/t")).1, "/srv/s.sock", "the variable, passed on");
    assert_eq!(places(&chosen, Some("/srv/u")).1, "/srv/u/tidings.sock");
    let alone = Environment { home: None, tidings_home: None, ..chosen };
    assert_eq!(alone.socket(None).unwrap(), Path::new("/srv/s.sock"));
}

#[test]
fn a_home_that_is_none_is_said_in_words() {
    let unset = Environment { home: None, ..linux("") };
    assert_eq!(unset.places(None).unwrap_err(), PlaceError::NoHome { state: "is not set" });
    assert_eq!(linux("").places(None).unwrap_err(), PlaceError::NoHome { state: "is empty" });
    let error = linux("here").places(None).unwrap_err();
    assert_eq!(error.to_string(), "HOME must be an absolute path, not `here`");
    let relative = Environment { tidings_home: Some("t".into()), ..linux("/home/ann") };
    assert!(matches!(relative.places(None), Err(PlaceError::NotAbsolute { .. })));
    let relative = Environment { tidings_socket: Some("s".into()), ..linux("/home/ann") };
    assert!(matches!(relative.places(None), Err(PlaceError::NotAbsolute { .. })));
    let empty = Environment {
        tidings_home: Some("".into()),
        tidings_socket: Some("".into()),
        xdg_runtime_dir: Some("".into()),
        xdg_data_home: Some("relative".into()),
        runtime_is_private: true,
        ..linux("/home/ann")
    };
    assert_eq!(places(&empty, None), places(&linux("/home/ann"), None), "empty is unset");
}

#[test]
fn any_bytes_but_nothing_else_make_a_home() {
    let home = OsString::from_vec(b"/tmp/h\xff".to_vec());
    let odd = Environment { home: Some(home), ..linux("") };
    let places = odd.places(None).unwrap();
    assert!(places.socket.as_os_str().as_bytes().starts_with(b"/tmp/h\xff/.local/state"));
    assert_eq!(
        self::places(&linux("/tmp/h with space"), None).0,
        "/tmp/h with space/.local/share/tidings"
    );
}

/// A home so long that the socket in it has this length.
fn home_for(length: usize) -> String {
    format!("/{}", "h".repeat(length - "/".len() - "/tidings.sock".len()))
}

#[test]
fn a_path_is_used_up_to_the_system_s_limit() {
    let plain = linux("/home/ann");
    let (fits, long) = (home_for(107), home_for(108));
    assert_eq!(places(&plain, Some(&fits)).1.len(), 107);
    let error = plain.places(Some(Path::new(&long))).unwrap_err();
    let PlaceError::TooLong { ref path, length, limit } = error else { panic!("{error}") };
    assert_eq!((path.as_path(), length, limit), (&*Path::new(&long).join(SOCKET_NAME), 108, 107));
    let words = error.to_string();
    assert!(words.contains("108") && words.contains("107") && words.contains(&long), "{words}");

    let short = places(&with_runtime(plain), Some(&long)).1;
    assert!(short.starts_with("/run/user/1000/tidings/"), "{short}");
    let mac = Environment { platform: Platform::MacOs, ..linux("/home/ann") };
    assert_eq!(places(&mac, Some(&home_for(103))).1.len(), 103);
    assert!(mac.places(Some(Path::new(&home_for(104)))).is_err());
    let socket = Some(format!("/{}", "s".repeat(107)).into());
    let chosen = Environment { tidings_socket: socket, ..with_runtime(linux("/home/ann")) };
    assert!(chosen.socket(None).is_err(), "a chosen socket is not replaced by another");
}

#[test]
fn two_homes_never_share_a_socket() {
    let account = |environment| Environment {
        account_home: Some("/home/ann".into()),
        ..with_runtime(environment)
    };
    let long = |letter: &str| format!("/{}", letter.repeat(150));
    let own = account(linux("/home/ann"));
    let sockets = [
        places(&own, None).1,
        places(&account(linux("/tmp/other")), None).1,
        places(&account(linux(&long("a"))), None).1,
        places(&account(linux(&long("b"))), None).1,
        places(&own, Some(&long("c"))).1,
        places(&own, Some(&long("d"))).1,
        places(&own, Some("/home/ann")).1,
        places(&Environment { xdg_data_home: Some("/data".into()), ..own.clone() }, None).1,
    ];
    for (index, socket) in sockets.iter().enumerate() {
        assert!(socket.len() <= 107);
        assert!(!sockets[..index].contains(socket), "{socket} is shared");
    }
    assert_eq!(sockets[0], "/run/user/1000/tidings/tidings.sock");
    // Without a runtime directory the homes themselves keep them apart, or refuse.
    assert_ne!(places(&linux("/a"), None).1, places(&linux("/b"), None).1);
    assert!(linux(&long("a")).places(None).is_err());
    let data = Environment { xdg_data_home: Some("/data".into()), ..linux("/a") };
    assert_ne!(places(&data, None).1, places(&linux("/a"), None).1);
}

#[test]
fn short_names_are_the_same_everywhere() {
    // printf %s /home/ann/.local/share/tidings | sha256sum
    let name = short_name(Path::new("/home/ann/.local/share/tidings"));
    assert_eq!(name, "104f05cf91883283.sock");
}

#[test]
fn the_file_of_accounts_names_homes() {
    let accounts =
        b"root:x:0:0:root:/root:/bin/bash\n# odd\nann:x:1000:1000:Ann:/home/ann/:/bin/sh\n\
                     nobody:x:65534:65534:nobody:nonexistent:/usr/sbin/nologin\n";
    assert_eq!(environment::account_home(accounts, 0), Some("/root".into()));
    assert_eq!(environment::account_home(accounts, 1000), Some("/home/ann".into()));
    assert_eq!(environment::account_home(accounts, 65534), None);
    assert_eq!(environment::account_home(accounts, 7), None);
}
