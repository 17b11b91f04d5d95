//! What every engine does alike: order, ranges, atomic jobs, large values, views.

use tidings_kv::{CommitError, Durability, Reader, Scan, Store, StoreError};

use crate::support::{each, put};

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
        store.submit(Durability::Synced, move |_| Ok(wait.recv().unwrap()), ack);
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
