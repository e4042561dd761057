//! Requests that tests send themselves.

use std::time::Duration;

use axum::http::Request;
use zstn_net::client::Connections;
use zstn_net::runtime::block_on;

/// The time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request, and returns the status and the text of the answer.
///
/// # Errors
/// A description of the failure if there is no complete answer.
pub fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: impl Into<String>,
) -> Result<(u16, String), String> {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.into().into());
    let request = request.map_err(|error| error.to_string())?;
    let answer = async {
        let connections = Connections::default();
        let sent = connections.send(request, PATIENCE, PATIENCE);
        let answer = sent.await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let text = answer.text().await.map_err(|error| error.to_string())?;
        Ok((status, text))
    };
    block_on(answer).map_err(|error| error.to_string())?
}
