//! Removing an account with all its bytes: marked first, so that it is gone for everybody at
//! once, then row by row in small commits, resumed at the next start if one was cut short.

use tidings_kv::{Reader as _, Scan, Txn};
use tidings_wire::AccountId;

use super::records::{AccountRecord, Row as _, damaged};
use super::{KvStore, account, keys, open, table};
use crate::store::Refusal;

/// Rows and bytes of one commit.
const ROWS: usize = 500;
const BYTES: usize = 4 << 20;

impl KvStore {
    /// Marks the account, then removes everything.
    pub(super) async fn remove_account(&self, account: AccountId) -> Result<(), Refusal> {
        self.write(move |txn| {
            let record = account::record(txn, account)?;
            account::put(txn, account, &AccountRecord { removing: true, ..record })
        })
        .await?;
        while self.write(move |txn| remove_some(txn, account)).await? == Progress::More {}
        Ok(())
    }

    /// Goes on with what an earlier run was cut short in.
    pub(super) fn finish_removals(&self) -> Result<(), open::OpenError> {
        let mut scan = Scan::all(ROWS);
        loop {
            let rows = self.kv.range(table::ACCOUNTS, &scan)?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            scan = scan.after(last);
            for (key, value) in rows {
                let id =
                    AccountId::from_slice(&key).ok_or_else(|| damaged("account", "bad key"))?;
                // A damaged row must not keep the server from starting; it shows when it is used.
                let Ok(record) = AccountRecord::decode(&value) else { continue };
                if !record.removing {
                    continue;
                }
                tracing::info!(account = %id, "goes on removing an account");
                let more = || self.kv.run(move |txn| remove_some(txn, id));
                while more().map_err(open::from_commit)? == Progress::More {}
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    More,
    Done,
}

/// Removes up to a commit's worth; the account's own row goes last.
fn remove_some(txn: &mut Txn<'_>, account: AccountId) -> Result<Progress, Refusal> {
    for name in table::OF_ACCOUNT {
        let rows = txn.range(name, &Scan::prefix(&account.0, ROWS).bytes(BYTES))?;
        if rows.is_empty() {
            continue;
        }
        for (key, _) in rows {
            txn.delete(name, key)?;
        }
        return Ok(Progress::More);
    }
    txn.delete(table::ACCOUNTS, keys::account(account))?;
    Ok(Progress::Done)
}
