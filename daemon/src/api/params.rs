//! The parameters in a query string: each known, each at most once.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde_json::json;
use tidings_tables::{Value, json as values};

use super::error::{ApiError, Code};

/// Parameters by name, to be taken one by one.
#[derive(Debug, Default)]
pub struct Params {
    values: BTreeMap<String, String>,
    accepted: Vec<&'static str>,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(pairs) =
            Query::<Vec<(String, String)>>::from_request_parts(parts, state).await.map_err(
                |_| ApiError::new(Code::InvalidField, "the query string cannot be read"),
            )?;
        let mut values = BTreeMap::new();
        for (name, value) in pairs {
            if values.insert(name.clone(), value).is_some() {
                return Err(ApiError::invalid(&name, format!("`{name}` is given twice")));
            }
        }
        Ok(Self { values, accepted: Vec::new() })
    }
}

impl Params {
    /// Takes a parameter as text.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.accepted.push(name);
        self.values.remove(name)
    }

    /// Takes a parameter of a type that reads itself.
    ///
    /// # Errors
    /// `request.invalid_field`.
    pub fn parsed<T: FromStr>(
        &mut self,
        name: &'static str,
        expected: &str,
    ) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong = |_| ApiError::invalid(name, format!("`{name}` must be {expected}"));
        text.parse().map(Some).map_err(wrong)
    }

    /// Takes a parameter that is JSON.
    ///
    /// # Errors
    /// What is wrong with the JSON.
    pub fn json(&mut self, name: &'static str) -> Result<Option<Value>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong =
            |error| ApiError::json(&error, text.as_bytes()).details(json!({ "field": name }));
        values::parse(text.as_bytes()).map(Some).map_err(wrong)
    }

    /// Takes a list: a JSON array of strings, or names joined by commas.
    ///
    /// # Errors
    /// What is wrong with the JSON.
    pub fn list(&mut self, name: &'static str) -> Result<Option<Vec<String>>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        if !text.starts_with('[') {
            let parts = text.split(',').filter(|part| !part.is_empty());
            return Ok(Some(parts.map(str::to_owned).collect()));
        }
        let wrong = || ApiError::invalid(name, format!("`{name}` must be a list of names"));
        let value = values::parse(text.as_bytes())
            .map_err(|error| ApiError::json(&error, text.as_bytes()))?;
        let items = value.as_array().ok_or_else(wrong)?;
        let texts = items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong));
        texts.collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// Refuses what was not taken.
    ///
    /// # Errors
    /// `request.unknown_field`.
    pub fn finish(self) -> Result<(), ApiError> {
        match self.values.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(ApiError::new(
                Code::UnknownField,
                format!("the call does not know the parameter `{name}`"),
            )
            .details(json!({ "field": name, "accepted": self.accepted }))),
        }
    }
}
