//! Pulls: pages that never split a push, filters by tag and time, manifests whatever the filter.

use tidings_proof::Blob;
use tidings_wire::sync::{Entry, Item, PullResponse};
use tidings_wire::{Code, Position};

use crate::fixture::session::b64;
use crate::fixture::{TestServer, tag};

fn blob(entry: &Entry) -> Blob<'_> {
    let Item::Blob(bytes) = &entry.item else { panic!("not a blob: {entry:?}") };
    Blob::parse(bytes).unwrap()
}

fn cursor(page: &PullResponse) -> String {
    format!("&cursor={}", b64(&page.cursor[..]))
}

#[tokio::test]
async fn a_page_ends_between_pushes() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    for size in [2, 3, 1, 6, 1] {
        a.write(&mut book, 1, size).await;
    }
    let mut sizes = Vec::new();
    let mut page = b.pull("notes", "&limit=4").await;
    let mut last = Position(0);
    loop {
        assert!(page.position > last);
        assert!(page.cursor.len() <= tidings_wire::limits::CURSOR);
        assert!(page.entries.iter().all(|entry| entry.position > last));
        last = page.position;
        sizes.push(page.entries.len());
        if !page.has_more {
            break;
        }
        page = b.pull("notes", &format!("&limit=4{}", cursor(&page))).await;
    }
    // A push that is larger than the limit comes whole and alone.
    assert_eq!(sizes, [2, 4, 6, 1]);
    let after = b.pull("notes", &cursor(&page)).await;
    assert!(after.entries.is_empty() && !after.has_more);
    assert_eq!(after.position, after.head);
    a.write(&mut book, 1, 1).await;
    assert_eq!(b.pull("notes", &cursor(&after)).await.entries.len(), 1);
}

#[tokio::test]
async fn a_page_has_its_bytes() {
    let server = TestServer::start(&[("limits.page_bytes", "64KiB")]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    for _ in 0..5 {
        let blob = book.blob(&a.chain, tag(1), 30_000);
        a.push(&mut book, &[blob]).await;
    }
    let large = book.blob(&a.chain, tag(1), 200_000);
    a.push(&mut book, &[large]).await;
    let mut sizes = Vec::new();
    let mut page = b.pull("notes", "").await;
    loop {
        sizes.push(page.entries.len());
        if !page.has_more {
            break;
        }
        page = b.pull("notes", &cursor(&page)).await;
    }
    assert_eq!(sizes, [2, 2, 1, 1]);
}

#[tokio::test]
async fn tags_filter_blobs_and_never_manifests() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let c = a.link().await;
    let (mut books_a, mut books_b) = (a.book("notes"), b.book("notes"));
    let b = crate::fixture::Session { chain: a.chain.clone(), ..b };
    for round in 0..4u8 {
        a.write(&mut books_a, round % 3, 2).await;
        b.write(&mut books_b, round % 2, 1).await;
    }
    let filter = format!("&tables={},{}", tag(1), tag(2));
    let mut all = Vec::new();
    let mut page = c.pull("notes", &format!("{filter}&limit=2")).await;
    loop {
        assert_eq!(page.manifest_heads.len(), 2);
        assert_eq!(page.manifests.len(), 2);
        all.extend(page.entries.iter().map(|entry| {
            let header = blob(entry).header().clone();
            (entry.position, header.lane.tag, header.seq)
        }));
        if !page.has_more {
            break;
        }
        page = c.pull("notes", &format!("{filter}&limit=2{}", cursor(&page))).await;
    }
    assert_eq!(all.len(), 6, "{all:?}");
    assert!(all.is_sorted());
    assert!(all.iter().all(|(_, tag_of, _)| [tag(1), tag(2)].contains(tag_of)));
    let unfiltered = c.pull_all("notes", "").await;
    assert_eq!(unfiltered.len(), 12);

    // The cursor of one filter is none for another, another device or another app.
    let other = format!("&tables={}{}", tag(1), cursor(&page));
    assert_eq!(c.try_pull("notes", &other).await.code(), Code::InvalidField);
    let filtered = format!("{filter}{}", cursor(&page));
    assert_eq!(b.try_pull("notes", &filtered).await.code(), Code::InvalidField);
    assert_eq!(c.try_pull("todo", &filtered).await.code(), Code::InvalidField);
    // The order of the tags does not matter.
    let turned = format!("&tables={},{}{}", tag(2), tag(1), cursor(&page));
    assert_eq!(c.try_pull("notes", &turned).await.status, 200);
}

#[tokio::test]
async fn manifests_that_the_caller_names_are_left_out() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 1).await;
    let known = |n: u64| {
        let mut record = a.device.id.0.to_vec();
        record.extend_from_slice(&a.device.incarnation.0);
        record.extend_from_slice(&n.to_be_bytes());
        format!("&manifests={}", b64(record))
    };
    let page = b.pull("notes", &known(1)).await;
    assert_eq!((page.manifest_heads.len(), page.manifests.len()), (1, 0));
    let page = b.pull("notes", &known(7)).await;
    assert_eq!(page.manifests.len(), 1, "another number is another manifest");
    let code = b.try_pull("notes", "&manifests=AAAA").await.code();
    assert_eq!(code, Code::InvalidField);
}

#[tokio::test]
async fn since_is_an_instant_and_names_anchors() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut book = a.book("notes");
    a.write(&mut book, 1, 2).await;
    a.write(&mut book, 2, 1).await;
    let before = b.pull("notes", "").await;
    let old = before.entries.iter().map(|entry| entry.received_ms).max().unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    a.write(&mut book, 1, 2).await;
    a.write(&mut book, 3, 1).await;
    let all = b.pull("notes", "").await;
    let new: Vec<u64> =
        all.entries.iter().map(|entry| entry.received_ms).filter(|time| *time > old).collect();
    assert_eq!(new.len(), 3);
    // At exactly the instant it passes.
    let since = new[0];
    let page = b.pull("notes", &format!("&since={since}")).await;
    assert_eq!(page.entries.len(), 3);
    // Table 1 goes on after its second blob, table 2 is quiet, table 3 begins.
    let mut anchors: Vec<_> = page.anchors.iter().map(|a| (a.tag, a.seq.0, a.hash)).collect();
    anchors.sort();
    let seconds: Vec<_> = before.entries.iter().map(|entry| blob(entry).hash()).collect();
    assert_eq!(anchors, [(tag(1), 2, seconds[1]), (tag(2), 1, seconds[2])]);

    let filter = format!("&since={since}&tables={}", tag(1));
    let page = b.pull("notes", &filter).await;
    assert_eq!((page.entries.len(), page.anchors.len()), (2, 1));
    // Later pages name the anchors of what is in them.
    let first = b.pull("notes", &format!("&since={since}&limit=1")).await;
    assert_eq!(first.entries.len(), 2);
    let second = b.pull("notes", &format!("&since={since}&limit=1{}", cursor(&first))).await;
    assert_eq!((second.entries.len(), second.anchors.len()), (1, 0));

    // O12: however it is written, and never 200 and empty.
    let at = jiff::Timestamp::from_millisecond(i64::try_from(since).unwrap()).unwrap();
    let zoned = at.to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(10)));
    let zone = zoned.strftime("%Y-%m-%dT%H:%M:%S%.3f").to_string();
    for text in [
        at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        format!("{zone}%2B10:00"),
        format!("{zone}+10:00"),
        format!("{zone}%20%2B10:00").replace("%20", ""),
    ] {
        let page = b.pull("notes", &format!("&since={text}")).await;
        assert_eq!(page.entries.len(), 3, "{text}");
    }
    for text in ["2026-03-29T02:30:00", "yesterday", "", "-1"] {
        let problem = b.try_pull("notes", &format!("&since={text}")).await.problem();
        assert_eq!(problem.code, Code::InvalidField, "{text}");
        assert!(problem.message.contains("since"));
    }
    // In the future there is nothing yet, and what comes passes.
    let page = b.pull("notes", "&since=2999-01-01T00:00:00Z").await;
    assert!(page.entries.is_empty());
    assert_eq!(page.anchors.len(), 3);
}

#[tokio::test]
async fn parameters_are_checked() {
    let server = TestServer::start(&[]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    for (more, code) in [
        ("&limit=0", Code::InvalidField),
        ("&limit=1001", Code::InvalidField),
        ("&limit=x", Code::InvalidField),
        ("&cursor=AAAA", Code::InvalidField),
        ("&cursor=%25", Code::InvalidField),
        ("&tables=", Code::InvalidField),
        ("&tables=ABCDEF", Code::InvalidField),
        ("&colour=red", Code::UnknownField),
        ("&limit=5&limit=6", Code::InvalidField),
    ] {
        assert_eq!(a.try_pull("notes", more).await.code(), code, "{more}");
    }
    let many = vec![tag(1).to_string(); 257];
    let distinct: Vec<_> = (0..257u32).map(|n| format!("{n:032x}")).collect();
    assert_eq!(a.try_pull("notes", &format!("&tables={}", many.join(","))).await.status, 200);
    let code = a.try_pull("notes", &format!("&tables={}", distinct.join(","))).await.code();
    assert_eq!(code, Code::InvalidField);
    assert_eq!(a.try_pull("_account", "").await.code(), Code::AppNotFound);
    assert_eq!(a.try_pull("No", "").await.code(), Code::InvalidField);
    let path = format!(
        "/api/sync/pull?app_id=notes&device_id={}&incarnation={}",
        b.device.id, b.device.incarnation
    );
    assert_eq!(a.get(&path).await.code(), Code::DeviceMismatch);
    assert_eq!(a.get("/api/sync/pull?app_id=notes").await.code(), Code::MissingField);
    // An app that nobody wrote to is empty.
    let page = a.pull("nothing", "").await;
    assert_eq!((page.entries.len(), page.head, page.has_more), (0, Position(0), false));
}

#[tokio::test]
async fn apps_and_status_tell_what_is_there() {
    let server = TestServer::start(&[("quota.bytes", "1MiB")]).await;
    let mut a = server.account().await;
    let b = a.link().await;
    let mut notes = a.book("notes");
    let mut todo = a.book("todo");
    a.write(&mut notes, 1, 2).await;
    a.write(&mut todo, 2, 1).await;
    let session = crate::fixture::Session { chain: a.chain.clone(), ..b.clone() };
    let last = session.push(&mut b.book("todo"), &[]).await;
    let apps: tidings_wire::sync::AppsResponse = b.get("/api/sync/apps").await.json();
    let listed: Vec<_> = apps.apps.iter().map(|app| (app.app_id.as_str(), app.head)).collect();
    assert_eq!(listed, [("notes", Position(1)), ("todo", last.head)]);
    assert_eq!(apps.chain, a.chain.head());
    assert_eq!(apps.generation, last.generation);
    b.pull("todo", "").await;
    let seen = async {
        loop {
            let status: tidings_wire::sync::StatusResponse = a.get("/api/sync/status").await.json();
            if !status.devices.is_empty() {
                return status;
            }
        }
    };
    let status = crate::fixture::within(seen).await;
    assert_eq!((status.blobs, status.quota_bytes), (3, Some(1 << 20)));
    assert_eq!(status.tables.len(), 2);
    // Manifests count, too.
    let tables: u64 = status.tables.iter().map(|table| table.bytes).sum();
    assert!(tables > 0 && tables < status.bytes);
    assert_eq!(status.devices[0].device_id, b.device.id);
    assert_eq!(status.devices[0].position, last.head);
}
