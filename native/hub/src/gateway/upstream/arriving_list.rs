//! A hub's file list that is parsed while it arrives, so that only a few entries are in
//! memory.

use axum::http::StatusCode;
use serde_json::Value;

use super::Refusal;
use super::hub::MAX_JSON_BYTES;
use crate::gateway::json_array::JsonArray;

/// A group ends once it has at least this many entries.
const GROUP_LEN: usize = 1000;

/// A group that is not empty ends once this many bytes of text have been read for it.
const GROUP_BYTES: usize = 256 << 10;

/// A list whose text is read as its entries are requested.
pub(super) struct ArrivingList {
    endpoint: String,
    answer: reqwest::Response,
    array: JsonArray,
    read_bytes: usize,
    is_over: bool,
}

impl ArrivingList {
    /// Reads the list from the body of `answer`, a response of the hub `endpoint`.
    pub(super) fn new(endpoint: &str, answer: reqwest::Response) -> Result<Self, Refusal> {
        let list = Self {
            endpoint: endpoint.to_owned(),
            answer,
            array: JsonArray::default(),
            read_bytes: 0,
            is_over: false,
        };
        // A list whose declared length is too long is refused before the answer begins.
        match list.answer.content_length() {
            Some(len) if len > MAX_JSON_BYTES as u64 => Err(too_long(endpoint)),
            _ => Ok(list),
        }
    }

    /// Returns whether the whole text has been read.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the next group of entries.
    pub(super) async fn group(&mut self) -> Result<Vec<Value>, Refusal> {
        let mut found = Vec::new();
        let start = self.read_bytes;
        while !self.is_over
            && found.len() < GROUP_LEN
            && (found.is_empty() || self.read_bytes - start < GROUP_BYTES)
        {
            let part = self.answer.chunk().await;
            let part = part.map_err(|error| Refusal::unanswered(&self.endpoint, &error))?;
            let result = match part {
                Some(part) => {
                    self.read_bytes += part.len();
                    if self.read_bytes > MAX_JSON_BYTES {
                        return Err(too_long(&self.endpoint));
                    }
                    self.array.take(&part, &mut found)
                }
                None => {
                    self.is_over = true;
                    self.array.end()
                }
            };
            result.map_err(|fault| {
                let message = format!("a list of {} cannot be read: {fault}", self.endpoint);
                Refusal::new(StatusCode::BAD_GATEWAY, message)
            })?;
        }
        Ok(found)
    }
}

/// Returns the refusal for an answer of the hub that is too long.
pub(super) fn too_long(endpoint: &str) -> Refusal {
    let message = format!(
        "an answer of {endpoint} is longer than {} MB, which is the most that is read",
        MAX_JSON_BYTES >> 20
    );
    Refusal::new(StatusCode::BAD_GATEWAY, message)
}
