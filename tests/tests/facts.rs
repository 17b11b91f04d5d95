//! Real data sets, imported on one device: the facts known of them hold on both.
//!
//! The films are in the repository. The other sets are read from the directory that
//! `TIDINGS_TEST_DATA` names, where there is one; small sets of the same shapes are made here.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidings_tests::{Device, House};
use tidings_wire::AppId;
use tidings_wire::local::{QueryRequest, Record};

async fn imported(house: &House, app: &str, file: &Path, more: &[&str]) -> u64 {
    let file = file.to_str().unwrap();
    let verb = [&["--app", app, "--json", "import", file], more].concat();
    let (status, text) = house.device(0).run(&verb);
    assert!(status.success(), "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let app: AppId = app.parse().unwrap();
    for (table, rows) in answer["tables"].as_object().unwrap() {
        let rows = usize::try_from(rows.as_u64().unwrap()).unwrap();
        house.device(1).rows_become(&app, table, rows).await;
        house.converge(&app, table).await;
    }
    answer["rows"].as_u64().unwrap()
}

fn films() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/movies.json")
}

/// A set that is not in the repository.
fn elsewhere(name: &str) -> Option<PathBuf> {
    let file = Path::new(&std::env::var_os("TIDINGS_TEST_DATA")?).join(name);
    assert!(file.is_file(), "TIDINGS_TEST_DATA has no {name}");
    Some(file)
}

async fn on_both(house: &House, app: &str, table: &str) -> [Vec<Record>; 2] {
    let app: AppId = app.parse().unwrap();
    [house.device(0).rows(&app, table).await, house.device(1).rows(&app, table).await]
}

fn count(rows: &[Record], holds: impl Fn(&Record) -> bool) -> usize {
    rows.iter().filter(|row| holds(row)).count()
}

async fn total(device: &Device, app: &str, table: &str, filter: Value) -> u64 {
    let request = QueryRequest {
        filter: Some(filter),
        limit: Some(1),
        include_total: true,
        ..QueryRequest::default()
    };
    let app: AppId = app.parse().unwrap();
    device.client().query(&app, table, &request).await.unwrap().total.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn films_are_the_same_on_both() {
    let house = House::new(&["first", "second"]).await;
    assert_eq!(imported(&house, "films", &films(), &[]).await, 3201);
    for rows in on_both(&house, "films", "movies").await {
        assert_eq!(count(&rows, |row| row["Title"].is_null()), 1);
        assert_eq!(count(&rows, |row| row["Title"].is_number()), 9);
        assert_eq!(count(&rows, |row| row["Director"].is_null()), 1331);
        assert_eq!(count(&rows, |row| row["IMDB Rating"].is_null()), 213);
        assert_eq!(count(&rows, |row| row["IMDB Rating"].as_f64() == Some(8.0)), 51);
    }
    for device in &house.devices {
        assert_eq!(total(device, "films", "movies", json!({"IMDB Rating": 8})).await, 51);
        assert_eq!(total(device, "films", "movies", json!({"Director": null})).await, 1331);
        let request = QueryRequest {
            sort: vec!["-IMDB Rating".into()],
            limit: Some(30),
            ..QueryRequest::default()
        };
        let app = "films".parse().unwrap();
        let top = device.client().query(&app, "movies", &request).await.unwrap().records;
        let ratings: Vec<_> = top.iter().map(|row| row["IMDB Rating"].clone()).collect();
        assert_eq!(ratings[..3], [json!(9.2), json!(9.2), json!(9.1)]);
        let nine = ratings.iter().position(|rating| *rating == json!(9)).expect("an integer 9");
        let next = ratings.iter().position(|rating| *rating == json!(8.9)).expect("a float 8.9");
        assert!(nine < next, "{ratings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_sets_of_every_shape() {
    let house = House::new(&["first", "second"]).await;
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let fixtures = write(
        "shop.json",
        r#"[{"model":"shop.album","pk":1,"fields":{"title":"Für Elise","artist":7}},
            {"model":"shop.artist","pk":7,"fields":{"name":"Ludwig","composer":null}},
            {"model":"shop.album","pk":2,"fields":{"title":"Für Elise","artist":7,"price":1.99}}]"#,
    );
    assert_eq!(imported(&house, "shop", &fixtures, &[]).await, 3);
    let lone = write(
        "regions.json",
        r#"{"regions":[{"code":"AD-02","name":"Canillo"},{"code":"AD-03","name":"Canillo","parent":"AD"}]}"#,
    );
    assert_eq!(imported(&house, "places", &lone, &["--id", "code"]).await, 2);
    let csv = write("people.csv", "zip,name\n00501,Åsa\n12345,Bo\n");
    assert_eq!(imported(&house, "people", &csv, &[]).await, 2);

    for rows in on_both(&house, "shop", "album").await {
        assert_eq!(rows.len(), 2);
        assert_eq!(count(&rows, |row| row["title"] == "Für Elise"), 2);
        assert_eq!(count(&rows, |row| row.get("price") == Some(&json!(1.99))), 1);
    }
    for rows in on_both(&house, "places", "regions").await {
        assert_eq!(count(&rows, |row| !row.contains_key("parent")), 1);
        assert_eq!(count(&rows, |row| row["id"] == row["code"]), 2);
    }
    for rows in on_both(&house, "people", "people").await {
        assert_eq!(count(&rows, |row| row["zip"] == "00501"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn football_where_it_is_at_hand() {
    let Some(file) = elsewhere("football.json") else { return };
    let house = House::new(&["first", "second"]).await;
    assert_eq!(imported(&house, "sport", &file, &[]).await, 6508);
    for rows in on_both(&house, "sport", "football").await {
        let scores = ["home_score", "away_score"];
        assert_eq!(count(&rows, |row| scores.iter().any(|score| row[*score].is_null())), 4);
        assert_eq!(count(&rows, |row| row["date"] == "2016-05-15"), 36);
        assert_eq!(count(&rows, |row| row["date"] == "2015-05-24"), 35);
        let text = |row: &Record| row.values().any(|value| !value.to_string().is_ascii());
        assert_eq!(count(&rows, text), 720);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn music_where_it_is_at_hand() {
    let Some(file) = elsewhere("chinook.json") else { return };
    let house = House::new(&["first", "second"]).await;
    assert_eq!(imported(&house, "music", &file, &[]).await, 15_607);
    let tables = [
        ("playlisttrack", 8715),
        ("track", 3503),
        ("invoiceline", 2240),
        ("invoice", 412),
        ("album", 347),
        ("artist", 275),
        ("customer", 59),
        ("genre", 25),
        ("playlist", 18),
        ("employee", 8),
        ("mediatype", 5),
    ];
    for (table, rows) in tables {
        for held in on_both(&house, "music", table).await {
            assert_eq!(held.len(), rows, "{table}");
        }
    }
    for rows in on_both(&house, "music", "track").await {
        assert_eq!(count(&rows, |row| row["composer"].is_null()), 978);
        let price = |row: &Record| row["unit_price"] == "1.99" || row["unit_price"] == json!(1.99);
        assert_eq!(count(&rows, price), 213);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn regions_where_they_are_at_hand() {
    let Some(file) = elsewhere("iso_3166-2.json") else { return };
    let house = House::new(&["first", "second"]).await;
    assert_eq!(imported(&house, "places", &file, &["--id", "code"]).await, 5127);
    for rows in on_both(&house, "places", "iso_3166-2").await {
        assert_eq!(count(&rows, |row| !row.contains_key("parent")), 3715);
        let text = |row: &Record| row.values().any(|value| !value.to_string().is_ascii());
        assert_eq!(count(&rows, text), 1326);
        let mut names = std::collections::BTreeMap::<_, usize>::new();
        for row in &rows {
            *names.entry(row["name"].as_str().unwrap()).or_default() += 1;
        }
        assert_eq!(names.values().filter(|often| **often > 1).count(), 116);
    }
}
