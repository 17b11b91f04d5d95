//! What every engine does alike: order, ranges, atomic jobs, large values, views.

use tidings_kv::{
    CommitError, Durability, EngineKind, ErrorKind, MAX_KEY, MAX_VALUE, OpenCheck, Options, Reader,
    Scan, Store, StoreError, Txn,
};

use crate::support::{each, each_durable, noise, open, options, put};

fn keys(store: &impl Reader, scan: &Scan) -> Vec<String> {
    let rows = store.range("rows", scan).unwrap();
    rows.into_iter().map(|(key, _)| String::from_utf8(key).unwrap()).collect()
}

#[test]
fn reads_back_what_was_written() {
    each(|store| {
        assert_eq!(store.get("rows", b"k").unwrap(), None);
        put(store, "rows", b"k", b"v");
        put(store, "blobs", b"k", b"other");
        assert_eq!(store.get("rows", b"k").unwrap().unwrap(), b"v");
        assert_eq!(store.get("blobs", b"k").unwrap().unwrap(), b"other");
        put(store, "rows", b"k", b"");
        assert_eq!(store.get("rows", b"k").unwrap().unwrap(), b"");
        store.run(|txn| txn.delete("rows", *b"k")).unwrap();
        assert_eq!(store.get("rows", b"k").unwrap(), None);
        store.run(|txn| txn.delete("rows", *b"never")).unwrap();
    });
}

#[test]
fn pages_come_in_byte_order_within_bounds() {
    each(|store| {
        assert_eq!(keys(store, &Scan::all(9).bytes(0)), [""; 0]);
        store
            .run(|txn| {
                for key in ["b", "a", "ab", "", "z", "aa"] {
                    txn.put("rows", key, "12345678")?;
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
        assert_eq!(keys(store, &Scan::all(99)), ["", "a", "aa", "ab", "b", "z"]);
        assert_eq!(keys(store, &Scan::all(99).reversed()), ["z", "b", "ab", "aa", "a", ""]);
        assert_eq!(keys(store, &Scan::prefix(b"a", 99)), ["a", "aa", "ab"]);
        assert_eq!(keys(store, &Scan::between(b"a", b"b", 99)), ["a", "aa", "ab"]);
        assert_eq!(keys(store, &Scan::between(b"a", b"b", 2).reversed()), ["ab", "aa"]);
        assert_eq!(keys(store, &Scan::all(2).after(b"aa")), ["ab", "b"]);
        assert_eq!(keys(store, &Scan::all(2).reversed().after(b"aa")), ["a", ""]);
        assert_eq!(keys(store, &Scan::all(99).bytes(18)), ["", "a", "aa"]);
        assert_eq!(keys(store, &Scan::all(99).bytes(1)), [""]);
        assert_eq!(keys(store, &Scan::all(99).bytes(0)), [""]);
        assert_eq!(keys(store, &Scan::all(99).bytes(0).after(b"z")), [""; 0]);
        assert_eq!(keys(store, &Scan::all(0)), [""; 0]);
        assert_eq!(keys(store, &Scan::between(b"b", b"a", 9)), [""; 0]);
    });
}

#[test]
fn a_refused_or_panicking_job_leaves_no_trace() {
    each(|store| {
        let refused: Result<(), _> = store.run(|txn| {
            txn.put("rows", "k", "v").unwrap();
            Err("no")
        });
        assert_eq!(refused, Err(CommitError::Job("no")));
        let panicked: Result<(), CommitError<StoreError>> = store.run(|txn| {
            txn.put("rows", "k", "v").unwrap();
            panic!("on purpose")
        });
        assert_eq!(panicked, Err(CommitError::Panicked("on purpose".to_owned())));
        assert_eq!(store.get("rows", b"k").unwrap(), None);
        put(store, "rows", b"k", b"after");
        assert_eq!(store.get("rows", b"k").unwrap().unwrap(), b"after");
    });
}

#[test]
fn a_job_sees_its_own_writes_and_those_before_it() {
    each(|store: &Store| {
        put(store, "rows", b"a", b"stored");
        let (sender, receiver) = std::sync::mpsc::channel();
        // A first job that waits keeps the others in the queue, so that they share a commit.
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let ack = |_: Result<(), CommitError<StoreError>>| {};
        store.submit(
            Durability::Synced,
            move |_| {
                wait.recv().unwrap();
                Ok(())
            },
            ack,
        );
        for step in 0..3u8 {
            let sender = sender.clone();
            store.submit(
                Durability::Synced,
                move |txn| {
                    txn.put("rows", vec![b'b' + step], "new")?;
                    if step == 1 {
                        txn.delete("rows", "a")?;
                    }
                    let seen = txn.range("rows", &Scan::all(9))?;
                    Ok::<_, StoreError>(seen.into_iter().map(|row| row.0[0]).collect::<Vec<_>>())
                },
                move |result| sender.send(result.unwrap()).unwrap(),
            );
        }
        go.send(()).unwrap();
        let seen: Vec<_> = receiver.iter().take(3).collect();
        assert_eq!(seen, [b"ab".to_vec(), b"bc".to_vec(), b"bcd".to_vec()]);
    });
}

#[test]
fn values_of_any_length_come_back_whole() {
    each(|store| {
        let lengths = [0, 1, 100, 4096, 65_535, 65_536, 65_537, 131_072, 200_000, 3_000_000];
        for (n, length) in (0u8..).zip(lengths) {
            put(store, "blobs", &[n], &noise(length as u64, length));
        }
        for (n, length) in (0u8..).zip(lengths) {
            let value = store.get("blobs", &[n]).unwrap().unwrap();
            assert!(value == noise(length as u64, length), "{length} bytes");
        }
        let rows = store.range("blobs", &Scan::all(99)).unwrap();
        assert_eq!(rows.iter().map(|row| row.1.len()).collect::<Vec<_>>(), lengths);
        let page = store.range("blobs", &Scan::all(99).after(&[3]).bytes(70_000)).unwrap();
        assert_eq!(page.iter().map(|row| row.1.len()).collect::<Vec<_>>(), [65_535, 65_536]);
    });
}

#[test]
fn parts_of_large_values_go_with_them() {
    each(|store| {
        for round in 0..3u64 {
            put(store, "blobs", b"k", &noise(round, 500_000));
            put(store, "blobs", b"other", &noise(round, 70_000));
        }
        assert_eq!(store.get("blobs", b"k").unwrap().unwrap(), noise(2, 500_000));
        put(store, "blobs", b"k", b"small");
        store.run(|txn| txn.delete("blobs", "other")).unwrap();
        let report = store.check().unwrap();
        assert_eq!((report.records, report.damaged, report.orphans), (1, 0, 0));
    });
}

#[test]
fn a_page_ends_only_at_a_limit() {
    each(|store| {
        store
            .run(|txn| {
                for n in 0..500u32 {
                    txn.put("rows", n.to_be_bytes(), vec![7; 1000 + (n as usize % 5) * 30_000])?;
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
        let limit = 300_000;
        for reversed in [false, true] {
            let mut scan = Scan::all(40).bytes(limit);
            if reversed {
                scan = scan.reversed();
            }
            let mut all = Vec::new();
            loop {
                let page = store.range("rows", &scan).unwrap();
                let bytes: usize = page.iter().map(|row| row.0.len() + row.1.len()).sum();
                all.extend(page.iter().map(|row| row.0.clone()));
                let Some((last, _)) = page.last() else { break };
                scan = scan.after(last);
                if page.len() < 40 && bytes < limit {
                    break;
                }
            }
            let mut expected: Vec<_> = (0..500u32).map(|n| n.to_be_bytes().to_vec()).collect();
            if reversed {
                expected.reverse();
            }
            assert_eq!(all, expected);
        }
    });
}

#[test]
fn what_no_store_can_do_is_refused() {
    each(|store| {
        let misuse = |error: StoreError| assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        misuse(store.get("nothing", b"k").unwrap_err());
        misuse(store.get("_meta", b"commit").unwrap_err());
        misuse(store.range("nothing", &Scan::all(1)).unwrap_err());
        type Job = fn(&mut Txn<'_>) -> Result<(), StoreError>;
        let jobs: [Job; 4] = [
            |txn| txn.put("nothing", "k", "v"),
            |txn| txn.put("rows", vec![0; MAX_KEY + 1], "v"),
            |txn| txn.put("rows", "k", vec![0; MAX_VALUE + 1]),
            |txn| txn.delete("rows", vec![0; MAX_KEY + 1]),
        ];
        for job in jobs {
            match store.run(job) {
                Err(CommitError::Job(error)) => misuse(error),
                other => panic!("{other:?}"),
            }
        }
        put(store, "rows", &[9; MAX_KEY], b"longest");
        assert_eq!(store.get("rows", &[9; MAX_KEY]).unwrap().unwrap(), b"longest");
    });
}

#[test]
fn a_view_stands_still() {
    each(|store| {
        put(store, "rows", b"a", b"1");
        put(store, "blobs", b"big", &noise(1, 200_000));
        let Some(view) = store.view().unwrap() else {
            assert_eq!(store.engine(), EngineKind::Sled);
            return;
        };
        put(store, "rows", b"b", b"2");
        put(store, "blobs", b"big", b"small");
        store.run(|txn| txn.delete("rows", "a")).unwrap();
        assert_eq!(keys(&view, &Scan::all(9)), ["a"]);
        assert_eq!(view.get("blobs", b"big").unwrap().unwrap(), noise(1, 200_000));
        assert_eq!(view.survey("rows", &Scan::all(9)).unwrap().len(), 1);
        assert_eq!(view.get("nothing", b"k").unwrap_err().kind(), ErrorKind::Misuse);
        assert_eq!(keys(store, &Scan::all(9)), ["b"]);
    });
}

#[test]
fn everything_is_there_after_opening_again() {
    each_durable(|dir, engine| {
        for round in 0..4u64 {
            let store = open(dir, engine).unwrap();
            assert!(store.was_clean());
            for earlier in 0..round {
                let key = earlier.to_be_bytes();
                assert_eq!(store.get("rows", &key).unwrap().unwrap(), noise(earlier, 900));
                assert_eq!(store.get("blobs", &key).unwrap().unwrap(), noise(earlier, 90_000));
            }
            put(&store, "rows", &round.to_be_bytes(), &noise(round, 900));
            put(&store, "blobs", &round.to_be_bytes(), &noise(round, 90_000));
            // Dropping the last clone closes in order, too.
            if round % 2 == 0 {
                store.close().unwrap();
            }
        }
    });
}

#[test]
fn a_closed_store_answers_so() {
    each(|store| {
        put(store, "rows", b"k", b"v");
        let other = store.clone();
        other.close().unwrap();
        assert_eq!(store.get("rows", b"k"), Err(StoreError::Closed));
        let late: Result<(), CommitError<StoreError>> = store.run(|_| Ok(()));
        assert_eq!(late, Err(CommitError::Store(StoreError::Closed)));
        let (sender, receiver) = std::sync::mpsc::channel();
        store.submit(
            Durability::Synced,
            |txn| txn.put("rows", "k", "late"),
            move |result| sender.send(result).unwrap(),
        );
        assert_eq!(receiver.recv().unwrap(), Err(CommitError::Store(StoreError::Closed)));
        assert_eq!(store.renew_generation(), Err(StoreError::Closed));
    });
}

#[test]
fn a_churned_redb_file_shrinks() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), EngineKind::Redb).unwrap();
    for n in 0..40u32 {
        put(&store, "blobs", &n.to_be_bytes(), &noise(n.into(), 1 << 20));
    }
    store.run(|txn| (1..40u32).try_for_each(|n| txn.delete("blobs", n.to_be_bytes()))).unwrap();
    let before = store.disk_size().unwrap();
    store.close().unwrap();
    // An open with the full check compacts by itself.
    let full = Options { check: OpenCheck::Full, ..options(EngineKind::Redb) };
    let store = Store::open(dir.path(), full).unwrap();
    let after = store.disk_size().unwrap();
    assert!(before > 40 << 20 && after < 10 << 20, "{before} → {after}");
    assert_eq!(store.get("blobs", &[0; 4]).unwrap().unwrap(), noise(0, 1 << 20));
    let again = store.compact().unwrap();
    eprintln!("{again:?}");
    assert_eq!(store.check().unwrap().records, 1);
}
