//! What a verb is run with: the app, the home, how to print.

use std::path::PathBuf;

use tidings_wire::AppId;

use super::args::Global;
use super::failure::Failure;
use super::output::Output;

/// What every verb gets.
#[derive(Debug)]
pub struct Context {
    app: Option<String>,
    /// The home that was named, if one was.
    pub home: Option<PathBuf>,
    /// Where and how to print.
    pub out: Output,
}

impl Context {
    /// From the options that every verb understands.
    pub fn new(global: Global) -> Self {
        let app = global.app.filter(|app| !app.is_empty());
        let home = global.home.filter(|home| !home.as_os_str().is_empty());
        Self { app, home, out: Output::new(global.json) }
    }

    /// The app that was named, if one was.
    ///
    /// # Errors
    /// Its name cannot be one.
    pub fn named_app(&self) -> Result<Option<AppId>, Failure> {
        let parse = |app: &str| app.parse().map_err(|error| Failure::argument("--app", error));
        self.app.as_deref().map(parse).transpose()
    }

    /// The app that the verb needs.
    ///
    /// # Errors
    /// None was named, or its name cannot be one.
    pub fn app(&self) -> Result<AppId, Failure> {
        let app = self.app.as_deref().ok_or_else(Failure::no_app)?;
        app.parse().map_err(|error| Failure::argument("--app", error))
    }
}
