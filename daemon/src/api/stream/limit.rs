//! How many streams each app has open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use tidings_wire::AppId;

use crate::api::error::{ApiError, Code};

/// Counts open streams.
#[derive(Debug, Clone)]
pub struct Streams {
    open: Arc<Mutex<BTreeMap<AppId, usize>>>,
    limit: usize,
}

/// A place among an app's streams, given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    streams: Streams,
    app: AppId,
}

impl Streams {
    /// Lets each app have this many.
    pub fn new(limit: usize) -> Self {
        Self { open: Arc::default(), limit }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// `stream.limit`.
    pub fn enter(&self, app: &AppId) -> Result<Place, ApiError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(app.clone()).or_default();
        if *count >= self.limit {
            let message = format!("the app has {} open streams, which is the limit", self.limit);
            return Err(ApiError::new(Code::StreamLimit, message)
                .hint("one stream can follow several tables: /v1/apps/APP/stream?tables=a,b")
                .retry_after(5)
                .details(json!({ "limit": self.limit })));
        }
        *count += 1;
        Ok(Place { streams: self.clone(), app: app.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.app) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.app);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_back() {
        let streams = Streams::new(2);
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let first = streams.enter(&a).unwrap();
        let _second = streams.enter(&a).unwrap();
        let refused = streams.enter(&a).unwrap_err();
        assert_eq!(refused.problem().code, Code::StreamLimit);
        assert!(streams.enter(&b).is_ok());
        drop(first);
        assert!(streams.enter(&a).is_ok());
        assert_eq!(streams.open.lock().unwrap().len(), 1);
    }
}
