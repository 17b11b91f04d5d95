//! Accounts and apps as rows.

use tidings_kv::{Reader, Txn};
use tidings_wire::{AccountId, AppId, Epoch};

use super::keys::{self, Prefix};
use super::records::{AccountRecord, AppRecord, Row as _};
use super::{chain, table};
use crate::clock::Millis;
use crate::store::{AccountRow, Invite, NewAccount, Refusal};

/// Reads an account; one that is being removed is gone.
pub(crate) fn record(
    reader: &(impl Reader + ?Sized),
    account: AccountId,
) -> Result<AccountRecord, Refusal> {
    let bytes = reader.get(table::ACCOUNTS, &keys::account(account))?;
    let record = AccountRecord::decode(&bytes.ok_or(Refusal::NoAccount)?)?;
    if record.removing { Err(Refusal::NoAccount) } else { Ok(record) }
}

/// The state of an account.
pub(crate) fn row(reader: &impl Reader, account: AccountId) -> Result<AccountRow, Refusal> {
    Ok(record(reader, account)?.row)
}

/// Writes an account.
pub(crate) fn put(
    txn: &mut Txn<'_>,
    account: AccountId,
    record: &AccountRecord,
) -> Result<(), Refusal> {
    Ok(txn.put(table::ACCOUNTS, keys::account(account), record.encode())?)
}

/// Creates an account. The same genesis again is fine as long as it is all there is: the answer
/// to the first one may have been lost.
pub(crate) fn create(txn: &mut Txn<'_>, new: &NewAccount) -> Result<(), Refusal> {
    if let Some(bytes) = txn.get(table::ACCOUNTS, &keys::account(new.account))? {
        let there = AccountRecord::decode(&bytes)?;
        let same = there.row.head == new.head && !there.removing;
        return if same { Ok(()) } else { Err(Refusal::AccountExists) };
    }
    if new.invite_needed {
        let code = new.invite.ok_or(Refusal::InviteRequired)?;
        let invite = txn.get(table::INVITES, &code.0)?.ok_or(Refusal::InviteInvalid)?;
        if Invite::decode(&invite)?.expires <= new.now {
            return Err(Refusal::InviteInvalid);
        }
        txn.delete(table::INVITES, code.0)?;
    }
    let row = AccountRow {
        head: new.head,
        epoch: Epoch(0),
        created: new.now,
        suspended: false,
        bytes: 0,
        blobs: 0,
    };
    let chain_bytes = chain::size(&new.genesis, &new.wraps, None);
    let record = AccountRecord { row, next_app: 1, apps: 0, chain_bytes, removing: false };
    put(txn, new.account, &record)?;
    txn.put(table::CHAIN, keys::chain(new.account, 0), new.genesis.clone())?;
    chain::put_wraps(txn, new.account, Epoch(0), &new.wraps)
}

/// Reads an app.
pub(crate) fn app(
    reader: &(impl Reader + ?Sized),
    account: AccountId,
    app: &AppId,
) -> Result<Option<AppRecord>, Refusal> {
    let bytes = reader.get(table::APPS, &keys::app(account, app))?;
    bytes.map(|bytes| AppRecord::decode(&bytes)).transpose()
}

/// Writes an app.
pub(crate) fn put_app(
    txn: &mut Txn<'_>,
    account: AccountId,
    app: &AppId,
    record: &AppRecord,
) -> Result<(), Refusal> {
    Ok(txn.put(table::APPS, keys::app(account, app), record.encode())?)
}

/// Reads an app, or begins it: then the account's record has to be written afterwards.
pub(crate) fn app_or_new(
    txn: &Txn<'_>,
    account: AccountId,
    record: &mut AccountRecord,
    name: &AppId,
    most: u64,
) -> Result<AppRecord, Refusal> {
    if let Some(app) = app(txn, account, name)? {
        return Ok(app);
    }
    if u64::from(record.apps) >= most {
        return Err(Refusal::Quota("apps"));
    }
    let number = record.next_app;
    record.next_app = number.checked_add(1).ok_or(Refusal::Quota("apps"))?;
    record.apps = record.apps.saturating_add(1);
    let (head, received) = (tidings_wire::Position(0), Millis(0));
    Ok(AppRecord { number, head, received, lanes: 0, replicas: 0, version: 0 })
}

/// What everything of an app begins with.
pub(crate) fn prefix(account: AccountId, app: &AppRecord) -> Prefix {
    Prefix::new(account, app.number)
}
