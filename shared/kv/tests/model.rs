//! Random jobs against a plain map: every engine answers as the map does, through the committer.

use std::{collections::BTreeMap, ops::Bound};

use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;
use tidings_kv::{CommitError, Durability, Reader, Row, Scan, Store, StoreError};

use crate::support::{ALL, TABLES, open};

type Table = BTreeMap<Vec<u8>, Vec<u8>>;
type Model = [Table; 2];

#[derive(Debug, Clone)]
enum Op {
    Put(usize, Vec<u8>, u8, usize),
    Delete(usize, Vec<u8>),
    Get(usize, Vec<u8>),
    Range(usize, Scan),
}

#[derive(Debug, Clone)]
enum Step {
    /// A job, whether it is refused at its end, and whether it is synced.
    Job(Vec<Op>, bool, bool),
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(0u8..3, 0..4)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
    ]
}

fn scan() -> impl Strategy<Value = Scan> {
    let bytes = prop_oneof![Just(usize::MAX), 0usize..300, 60_000usize..300_000];
    (bound(), bound(), 0usize..12, bytes, any::<bool>()).prop_map(
        |(from, to, rows, bytes, back)| {
            let scan = Scan::bounds(from, to, rows).bytes(bytes);
            if back { scan.reversed() } else { scan }
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let length = prop_oneof![8 => 0usize..200, 1 => 65_530usize..65_545, 1 => 65_536usize..200_000];
    prop_oneof![
        4 => (0usize..2, key(), any::<u8>(), length).prop_map(|(t, k, b, n)| Op::Put(t, k, b, n)),
        2 => (0usize..2, key()).prop_map(|(t, k)| Op::Delete(t, k)),
        1 => (0usize..2, key()).prop_map(|(t, k)| Op::Get(t, k)),
        2 => (0usize..2, scan()).prop_map(|(t, s)| Op::Range(t, s)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (vec(op(), 0..10), prop::bool::weighted(0.2), any::<bool>())
            .prop_map(|(ops, refused, synced)| Step::Job(ops, refused, synced)),
        1 => Just(Step::Reopen),
    ]
}

/// What a scan must answer.
fn expected(table: &Table, scan: &Scan) -> Vec<Row> {
    let within = |key: &[u8]| {
        let above = match scan.from() {
            Bound::Included(lo) => key >= lo,
            Bound::Excluded(lo) => key > lo,
            Bound::Unbounded => true,
        };
        let below = match scan.to() {
            Bound::Included(hi) => key <= hi,
            Bound::Excluded(hi) => key < hi,
            Bound::Unbounded => true,
        };
        above && below
    };
    let mut rows: Vec<Row> = table
        .iter()
        .filter(|(key, _)| within(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if scan.order() == tidings_kv::Order::Descending {
        rows.reverse();
    }
    let mut bytes = 0;
    let mut end = 0;
    while end < rows.len() && !scan.is_full(end, bytes) {
        bytes += rows[end].0.len() + rows[end].1.len();
        end += 1;
    }
    // A byte limit of 0 still gives the row that reaches it.
    if end == 0 && scan.max_rows() > 0 {
        end = rows.len().min(1);
    }
    rows.truncate(end);
    rows
}

/// Applies a job to the model, noting what its reads must answer.
fn play(model: &mut Model, ops: &[Op]) -> Vec<Vec<Row>> {
    let mut answers = Vec::new();
    for op in ops {
        match op {
            Op::Put(t, key, byte, length) => {
                model[*t].insert(key.clone(), vec![*byte; *length]);
            }
            Op::Delete(t, key) => {
                model[*t].remove(key);
            }
            Op::Get(t, key) => {
                let value = model[*t].get(key).cloned();
                answers.push(value.map(|value| (key.clone(), value)).into_iter().collect());
            }
            Op::Range(t, scan) => answers.push(expected(&model[*t], scan)),
        }
    }
    answers
}

/// Runs the same job on a store.
fn run(
    store: &Store,
    ops: Vec<Op>,
    refused: bool,
    synced: bool,
) -> Result<Vec<Vec<Row>>, CommitError<String>> {
    let durability = if synced { Durability::Synced } else { Durability::Relaxed };
    store.run_as(durability, move |txn| {
        let mut answers = Vec::new();
        let text = |error: StoreError| error.to_string();
        for op in &ops {
            match op {
                Op::Put(t, key, byte, length) => {
                    txn.put(TABLES[*t], key.clone(), vec![*byte; *length]).map_err(text)?;
                }
                Op::Delete(t, key) => txn.delete(TABLES[*t], key.clone()).map_err(text)?,
                Op::Get(t, key) => {
                    let value = txn.get(TABLES[*t], key).map_err(text)?;
                    answers.push(value.map(|value| (key.clone(), value)).into_iter().collect());
                }
                Op::Range(t, scan) => answers.push(txn.range(TABLES[*t], scan).map_err(text)?),
            }
        }
        if refused { Err("refused".to_owned()) } else { Ok(answers) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_engine_is_the_map(steps in vec(step(), 1..25)) {
        for engine in ALL {
            let dir = TempDir::new().unwrap();
            let mut store = open(dir.path(), engine).unwrap();
            let mut model = Model::default();
            for step in &steps {
                match step {
                    Step::Job(ops, refused, synced) => {
                        let mut next = model.clone();
                        let answers = play(&mut next, ops);
                        let outcome = run(&store, ops.clone(), *refused, *synced);
                        if *refused {
                            prop_assert_eq!(outcome, Err(CommitError::Job("refused".to_owned())));
                        } else {
                            prop_assert!(outcome == Ok(answers), "{engine}: {ops:?}");
                            model = next;
                        }
                    }
                    Step::Reopen if engine == tidings_kv::EngineKind::Memory => {}
                    Step::Reopen => {
                        store.close().unwrap();
                        store = open(dir.path(), engine).unwrap();
                    }
                }
            }
            for (table, rows) in TABLES.iter().zip(&model) {
                let stored = store.range(table, &Scan::all(1000)).unwrap();
                let rows: Vec<Row> = rows.clone().into_iter().collect();
                prop_assert!(stored == rows, "{engine}: table {table}");
            }
            let report = store.check().unwrap();
            prop_assert_eq!((report.damaged, report.orphans), (0, 0));
        }
    }
}
