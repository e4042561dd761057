//! What tests in other languages ask a hub for.

use axum::http::StatusCode;
use hyper::body::Incoming;
use serde_json::json;

use super::Hub;
use super::answer::{Answer, Refusal, json_response};
use super::fault::Fault;
use super::requests::read;

impl Hub {
    /// Answers requests below `/_stub`, which are neither logged nor refused.
    pub(super) async fn control(&self, method: &str, rest: &[&str], body: Incoming) -> Answer {
        match (method, rest) {
            ("GET", ["log"]) => Ok(json_response(&json!(self.log.all()))),
            ("DELETE", ["log"]) => {
                self.log.clear();
                Ok(json_response(&json!({})))
            }
            ("POST", ["faults"]) => {
                let fault: Fault = serde_json::from_slice(&read(body).await?)
                    .map_err(|error| Refusal::bad_request(error.to_string()))?;
                self.faults.add(fault);
                Ok(json_response(&json!({})))
            }
            ("DELETE", ["faults"]) => {
                self.faults.clear();
                Ok(json_response(&json!({})))
            }
            ("DELETE", ["repositories"]) => {
                self.repositories().clear();
                Ok(json_response(&json!({})))
            }
            _ => Err(Refusal::new(
                StatusCode::NOT_FOUND.as_u16(),
                "",
                "No such control",
            )),
        }
    }
}
