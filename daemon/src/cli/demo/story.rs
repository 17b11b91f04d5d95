//! The phases of the demo, one after the other.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_wire::AppId;
use tidings_wire::local::{ID, Record};

use super::account;
use super::compare::{self, Rows};
use super::edits::{self, Follower};
use super::look::{Teller, count, number, size};
use super::outcome::{Outcome, Percentiles, seconds};
use super::plaintext::Sought;
use super::sealed::{Sealed, bytes_below};
use super::stage::{Device, Stage};
use crate::cli::failure::Failure;
use crate::cli::import::{self, Shape, Tables};

/// The films, in the program itself.
const MOVIES: &str = include_str!("../../../../tests/data/movies.json");
/// The app that the file is imported into.
const APP: &str = "demo";
/// The app of the warm-up, and names that occur nowhere else.
const WARM_UP: (&str, &str, &str) = ("warmup", "first-light", "first-words");
/// How long the second device may take to have everything.
const REPLICATE: Duration = Duration::from_secs(300);
/// Single-row edits that are measured.
const EDITS: usize = 200;

const FIRST: usize = 0;
const SECOND: usize = 1;

/// What is shown: the rows of a file.
#[derive(Debug)]
pub struct Material {
    name: String,
    tables: Tables,
    rows: Rows,
}

impl Material {
    /// Reads and checks the file, or takes the films.
    ///
    /// # Errors
    /// The file cannot be read, or holds something that is not a row.
    pub fn read(file: Option<&Path>) -> Result<Self, Failure> {
        let path = file.map_or_else(|| PathBuf::from("movies.json"), Path::to_owned);
        let text = match file {
            Some(path) => import::read(path)?,
            None => MOVIES.to_owned(),
        };
        let name = path.display().to_string();
        let shape = Shape { default_table: import::default_table(&path), ..Shape::default() };
        let tables = import::parse(&path, &text, None, None, &shape)
            .map_err(|bad| Failure::bad_row(&name, &bad.place, &bad.reason))?;
        if tables.rows() == 0 {
            return Err(Failure::bad_row(&name, "the whole file", "it holds no rows"));
        }
        let mut rows = Rows::new();
        for table in tables.as_slice() {
            let of_table = rows.entry(table.name.to_string()).or_default();
            for row in &table.rows {
                let record: Record =
                    serde_json::from_str(&row.json).map_err(Failure::unexpected)?;
                of_table.insert(row.id.clone(), record);
            }
        }
        Ok(Self { name, tables, rows })
    }

    /// Everything in it that must not be found outside the devices.
    fn sought(&self) -> Sought {
        let mut sought = Sought::default();
        for (table, rows) in &self.rows {
            sought.name(table);
            rows.values().flatten().for_each(|(column, value)| {
                sought.name(column);
                sought.value(value);
            });
        }
        sought
    }

    /// The row that is edited: the first with text in it, or else the first.
    fn row_to_edit(&self) -> Result<Edited<'_>, Failure> {
        let mut rows = self.rows.iter().flat_map(|(table, rows)| {
            rows.iter().map(move |(id, record)| Edited { table, id, text: first_text(record) })
        });
        let first = rows.next();
        let with_text = first.into_iter().chain(rows).find(|row| row.text.is_some());
        with_text.or(first).ok_or_else(|| Failure::unexpected("no row to edit"))
    }
}

/// A row to edit.
#[derive(Debug, Clone, Copy)]
struct Edited<'a> {
    table: &'a str,
    id: &'a str,
    /// A column that holds text, and the text.
    text: Option<(&'a str, &'a str)>,
}

fn first_text(record: &Record) -> Option<(&str, &str)> {
    let columns = record.iter().filter(|(column, _)| *column != ID);
    columns.filter_map(|(column, value)| Some((column.as_str(), value.as_str()?))).next()
}

/// The play itself.
#[derive(Debug)]
pub struct Story<'a> {
    stage: &'a mut Stage,
    material: &'a Material,
    teller: Teller,
    app: AppId,
}

impl<'a> Story<'a> {
    /// A play with this material on that stage.
    ///
    /// # Errors
    /// None in practice: the app's name is a constant.
    pub fn new(
        stage: &'a mut Stage,
        material: &'a Material,
        teller: Teller,
    ) -> Result<Self, Failure> {
        Ok(Self { stage, material, teller, app: app(APP)? })
    }

    /// Plays all phases.
    ///
    /// # Errors
    /// A phase does not succeed; the failure names it.
    pub async fn play(&mut self, plant: bool) -> Result<Outcome, Failure> {
        self.begin().await?;
        self.link().await?;
        let (sealed, early) = self.warm_up().await?;
        let (import_s, replicate_s) = self.import().await?;
        let equal_to_file = self.compare_with_file().await?;
        self.edit().await?;
        let write_to_event_ms = self.measure().await?;
        let equal = equal_to_file && self.compare().await?;
        if plant {
            self.plant()?;
        }
        let server_bytes = self.server_bytes().await?;
        let found = self.search(sealed).await?;
        Ok(Outcome {
            rows: self.material.tables.rows(),
            tables: self.material.rows.len() as u64,
            equal,
            import_s: seconds(import_s),
            replicate_s: seconds(replicate_s),
            write_to_event_ms,
            server_bytes,
            plaintext_found: early || found,
        })
    }

    fn first(&self) -> Result<&Device, Failure> {
        self.stage.device(FIRST)
    }

    fn second(&self) -> Result<&Device, Failure> {
        self.stage.device(SECOND)
    }

    async fn begin(&mut self) -> Result<(), Failure> {
        self.teller.line("Tidings demo: one server and two devices on this machine. Ctrl-C ends it and leaves nothing behind.")?;
        self.teller.line("")?;
        self.stage.start_server().await?;
        let url = self.stage.url();
        self.teller.phase("server", format!("runs at {url}, with a certificate made just now"))?;
        let (url, authority) = (self.stage.url(), self.stage.authority_file());
        let invite = self.stage.invite().await?;
        let first = self.stage.start_device("first").await?;
        let account = account::create(&first.local, &url, invite, &authority).await?;
        self.teller.phase("first", format!("runs, and made keys and the account {account}"))
    }

    async fn link(&mut self) -> Result<(), Failure> {
        let (url, authority) = (self.stage.url(), self.stage.authority_file());
        self.stage.start_device("second").await?;
        let (first, second) = (self.first()?, self.second()?);
        let code = account::link(&first.local, &second.local, &url, &authority).await?;
        self.teller.phase("second", format!("runs, and is linked by the code {code}"))
    }

    /// One row in another app: it has to appear on a device that was linked before the app was
    /// first written. What the server and the wire hold afterwards is the protocol's vocabulary.
    async fn warm_up(&mut self) -> Result<(Sealed, bool), Failure> {
        let (name, table, column) = WARM_UP;
        let warm_app = app(name)?;
        let words = "as far as the eye can see";
        let row = json!({ "id": "the-very-first-row", column: words });
        let (first, second) = (self.first()?, self.second()?);
        let started = Instant::now();
        first.local.ask(first.local.client.insert(&warm_app, table, &row)).await?;
        until("the first row appears on the second device", async || {
            let row = second.local.client.row(&warm_app, table, "the-very-first-row").await.ok()?;
            (row.get(column)? == words).then_some(())
        })
        .await?;
        let milliseconds = started.elapsed().as_millis();
        self.teller.phase(
            "hello",
            format!("a first row, in an app that the second had never heard of: there after {milliseconds} ms"),
        )?;
        let mut warm = Sought::default();
        warm.name(table);
        warm.value(&row);
        let rows = self.material.sought();
        let places = vec![self.stage.server_dir(), self.stage.recording()];
        let (sealed, early) = blocking(move || Sealed::before(places, &warm, &rows)).await?;
        if let Some(found) = &early {
            self.teller.phase("found", format!("{:?} in {}", found.text, found.place))?;
        }
        Ok((sealed, early.is_some()))
    }

    async fn import(&mut self) -> Result<(Duration, Duration), Failure> {
        let (first, second) = (self.first()?, self.second()?);
        let tables = &self.material.tables;
        let started = Instant::now();
        let importing = async {
            import::send(&first.local, &self.app, tables, |_| {}).await?;
            Ok::<_, Failure>(started.elapsed())
        };
        let following = async {
            until("all rows are on the second device", async || {
                let held = second.local.client.tables(&self.app).await.ok()?;
                let rows: u64 = held.tables.iter().map(|table| table.rows).sum();
                (rows == tables.rows()).then_some(())
            })
            .await?;
            Ok::<_, Failure>(started.elapsed())
        };
        let (imported, replicated) = tokio::try_join!(importing, following)?;
        let rows = count(tables.rows(), "row");
        let many = count(self.material.rows.len() as u64, "table");
        self.teller.phase(
            "import",
            format!(
                "{rows} of {} into {many} on the first, in {:.2} s",
                self.material.name,
                imported.as_secs_f64()
            ),
        )?;
        self.teller.phase(
            "follow",
            format!(
                "all of them on the second, {:.2} s after the first row was sent",
                replicated.as_secs_f64()
            ),
        )?;
        Ok((imported, replicated))
    }

    async fn compare_with_file(&mut self) -> Result<bool, Failure> {
        let first = compare::read(&self.first()?.local, &self.app).await?;
        let second = compare::read(&self.second()?.local, &self.app).await?;
        let difference = compare::difference_from_file(&first, &self.material.rows)
            .map(|difference| format!("on the first, {difference}"))
            .or_else(|| compare::difference(&first, &second));
        self.see("first", &first)?;
        self.see("second", &second)?;
        match &difference {
            None => self
                .teller
                .phase("compare", "row by row: both devices hold exactly the rows of the file")?,
            Some(difference) => self.teller.phase("compare", format!("NOT equal: {difference}"))?,
        }
        Ok(difference.is_none())
    }

    fn see(&self, device: &str, rows: &Rows) -> Result<(), Failure> {
        let tables: Vec<_> = rows
            .iter()
            .map(|(table, rows)| format!("{table} {}", number(rows.len() as u64)))
            .collect();
        self.teller.phase(device, format!("sees {}", tables.join(", ")))
    }

    async fn edit(&mut self) -> Result<(), Failure> {
        let Edited { table, id, text } = self.material.row_to_edit()?;
        let (column, before) = text.unwrap_or(("note", ""));
        let after = format!("{before} (edited on the second)");
        let (first, second) = (self.first()?, self.second()?);
        let mut follower = Follower::start(&first.local, &self.app).await?;
        let started = Instant::now();
        let patch = json!({ column: after });
        second
            .local
            .ask(second.local.client.merge_patch(&self.app, table, id, &patch, None))
            .await?;
        let arrived = |change: &tidings_wire::local::Change| {
            let record = change.record.as_ref();
            change.row_id == id
                && record.and_then(|record| record.get(column)).and_then(Value::as_str)
                    == Some(&*after)
        };
        follower.wait(arrived).await?;
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        self.teller.phase(
            "edit",
            format!("{column} becomes {after:?} on the second; the first hears of it {milliseconds:.1} ms later"),
        )
    }

    async fn measure(&mut self) -> Result<Percentiles, Failure> {
        let Edited { table, id, .. } = self.material.row_to_edit()?;
        let (first, second) = (self.first()?, self.second()?);
        let row = (table, id);
        let times = edits::measure(&second.local, &first.local, &self.app, row, EDITS).await?;
        let percentiles =
            Percentiles { p50: edits::percentile(&times, 50), p99: edits::percentile(&times, 99) };
        let Percentiles { p50, p99 } = percentiles;
        self.teller.phase(
            "edits",
            format!("{EDITS} more, from the write to the event: half within {p50} ms, 99 of 100 within {p99} ms"),
        )?;
        Ok(percentiles)
    }

    /// Whether both devices are the same after all edits.
    async fn compare(&mut self) -> Result<bool, Failure> {
        let (first, second) = (self.first()?, self.second()?);
        let mut last = None;
        let equal = until("both devices are equal", async || {
            let first = compare::read(&first.local, &self.app).await.ok()?;
            let second = compare::read(&second.local, &self.app).await.ok()?;
            last = compare::difference(&first, &second);
            last.is_none().then_some(())
        })
        .await;
        match equal {
            Ok(()) => self.teller.phase("compare", "row by row, after the edits: still equal")?,
            Err(_) => {
                let difference = last.unwrap_or_default();
                self.teller.phase("compare", format!("NOT equal: {difference}"))?;
            }
        }
        Ok(equal.is_ok())
    }

    /// Writes one row in clear text among the server's files, for the search to find.
    fn plant(&self) -> Result<(), Failure> {
        let row = self.material.rows.values().flat_map(|rows| rows.values()).next();
        let text = serde_json::to_string(&row).map_err(Failure::unexpected)?;
        std::fs::write(self.stage.server_dir().join("planted"), text)
            .map_err(|error| Failure::demo("planting a row", error))?;
        self.teller.phase("planted", "one row in clear text among the server's files")
    }

    async fn server_bytes(&mut self) -> Result<u64, Failure> {
        let dir = self.stage.server_dir();
        blocking(move || bytes_below(&dir)).await
    }

    async fn search(&mut self, sealed: Sealed) -> Result<bool, Failure> {
        let dir = self.stage.server_dir();
        let held = blocking(move || bytes_below(&dir)).await?;
        let wire = self.stage.recording();
        let crossed = blocking(move || bytes_below(&wire)).await?;
        let report = blocking(move || sealed.after()).await?;
        if !report.vocabulary.is_empty() {
            let words = report.vocabulary.join(", ");
            self.teller.phase(
                "words",
                format!("the protocol itself says, and were sought in other forms: {words}"),
            )?;
        }
        self.teller.phase(
            "server",
            format!(
                "holds {} and passed {} on; {} searched for the rows and names",
                size(held),
                size(crossed),
                size(report.bytes)
            ),
        )?;
        match &report.found {
            None => self.teller.phase(
                "sealed",
                "none of them is in what the server holds or in what crossed the wire",
            )?,
            Some(found) => {
                self.teller
                    .phase("FOUND", format!("{:?} in clear text in {}", found.text, found.place))?;
            }
        }
        Ok(report.found.is_some())
    }

    /// Two lines to try, and how to end.
    ///
    /// # Errors
    /// A header file cannot be written.
    pub fn invite_to_try(&self) -> Result<(), Failure> {
        let table = percent_encoded(self.material.row_to_edit()?.table);
        let app = &self.app;
        let base = format!("http://localhost/v1/apps/{app}/tables/{table}");
        self.teller.line("")?;
        self.teller.line("Try it, in two other terminals: follow the table on the first, then write on the second.")?;
        self.teller.line("")?;
        for (device, name, what) in [
            (self.first()?, "first", format!("-N {base}/stream")),
            (
                self.second()?,
                "second",
                format!(
                    "-H 'content-type: application/json' -d '{{\"hello\":\"first\"}}' {base}/rows"
                ),
            ),
        ] {
            let header = self.stage.dir().join(format!("{name}.header"));
            device.write_header(&header)?;
            let socket = device.places.socket.display();
            self.teller
                .verbatim(&format!("  curl --unix-socket {socket} -H @{} \\", header.display()))?;
            self.teller.verbatim(&format!("    {what}"))?;
        }
        self.teller.line("")?;
        self.teller.line("Everything runs until Ctrl-C.")
    }
}

fn app(name: &str) -> Result<AppId, Failure> {
    name.parse().map_err(Failure::unexpected)
}

/// Asks until there is an answer; every question is a read, so asking often costs little.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> Result<T, Failure> {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(REPLICATE, asking).await.map_err(|_| {
        Failure::demo("waiting", format!("not yet after {} s: {what}", REPLICATE.as_secs()))
    })
}

/// Runs reading of many files where it holds nobody up.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(Failure::unexpected)?
        .map_err(|error| Failure::demo("searching", error))
}

/// A name as a segment of a URL that a shell takes without quotes.
fn percent_encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    name.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}
