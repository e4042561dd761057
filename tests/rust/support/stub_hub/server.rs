//! Accepts and serves connections.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use axum::http::{Request, header};
use axum::response::Response;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::runtime::Builder;
use tokio::sync::watch;

use super::Hub;
use super::answer::Refusal;
use super::log::LoggedRequest;
use super::requests::HubRequest;

/// A server on its own threads, which stops when dropped.
#[derive(Debug)]
pub(super) struct Server {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(listener: TcpListener, hub: Arc<Hub>) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        listener.set_nonblocking(true)?;
        let (stop, mut stopped) = watch::channel(false);
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => {}
                    () = accept(&listener, &hub) => {}
                }
            });
            runtime.shutdown_background();
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: &tokio::net::TcpListener, hub: &Arc<Hub>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let hub = Arc::clone(hub);
        let service = service_fn(move |request| {
            let hub = Arc::clone(&hub);
            async move { Ok::<_, Infallible>(answer(&hub, request).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(hub: &Arc<Hub>, request: Request<Incoming>) -> Response {
    let (parts, body) = request.into_parts();
    let received_bytes = body.size_hint().lower();
    let request = HubRequest::new(parts);
    if request.raw_path.starts_with("/_stub/") {
        let answer = hub.route(&request, body).await;
        return answer.unwrap_or_else(|refusal| refusal.response());
    }
    let fault = hub.faults.take(&request);
    let spoiled = match &fault {
        Some(fault) => fault.before().await,
        None => None,
    };
    let response = match spoiled {
        Some(response) => response,
        None => hub
            .route(&request, body)
            .await
            .unwrap_or_else(|refusal: Refusal| refusal.response()),
    };
    hub.log.add(LoggedRequest {
        method: request.method.to_string(),
        path: request.path(),
        query: request.raw_query.clone(),
        status: response.status().as_u16(),
        headers: request
            .headers
            .iter()
            .map(|(name, value)| {
                (
                    name.to_string(),
                    String::from_utf8_lossy(value.as_bytes()).into(),
                )
            })
            .collect(),
        received_bytes,
        sent_bytes: response
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .unwrap_or_default(),
    });
    match fault {
        Some(fault) => fault.after(response),
        None => response,
    }
}
