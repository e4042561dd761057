//! A server with two origins that behaves as a case of the table describes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::answer::Answer;
use super::cells::{Operation, Phase, Times};
use super::model;
use super::perform::perform;
use super::table::{Case, Kind};
use crate::fault_server::{Asked, FaultServer, Served};

/// The path of the file. Faults only affect requests for this path; the server serves
/// the same file at every other path.
pub const PATH: &str = "/model";

/// A request in the server's log.
#[derive(Debug, Clone, Serialize)]
pub struct Logged {
    /// True if the second origin received the request.
    pub is_other_origin: bool,
    /// `GET` or `HEAD`.
    pub method: String,
    /// Path of the requested URL.
    pub path: String,
    /// All headers, with lowercase names.
    pub headers: Vec<(String, String)>,
}

impl Logged {
    /// Returns the value of the header called `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }
}

/// A running server for one case, which stops when dropped.
#[derive(Debug)]
pub struct CaseServer {
    /// URL of the file at the first origin.
    pub url: String,
    origins: [FaultServer; 2],
    log: Arc<Mutex<Vec<Logged>>>,
}

/// Decides which answers are faulty.
#[derive(Debug)]
struct Script {
    case: Case,
    phase: Phase,
    times: Times,
    /// Number of requests for the file so far, except those on which a fault would have
    /// had no effect.
    requests: Mutex<usize>,
}

impl CaseServer {
    /// Starts a server. For [`Operation::Plain`] the server also ignores ranges,
    /// whatever the case states.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(
        case: &Case,
        operation: Operation,
        phase: Phase,
        times: Times,
        kind: Kind,
    ) -> Self {
        let mut case = case.clone();
        if operation == Operation::Plain {
            case.server.ignores.push("Range".into());
        }
        let served = model::served(kind);
        let log: Arc<Mutex<Vec<Logged>>> = Arc::default();
        let note = |log: &Mutex<Vec<Logged>>, asked: &Asked, is_other_origin| {
            lock(log).push(Logged {
                is_other_origin,
                method: asked.method.clone(),
                path: asked.path.clone(),
                headers: asked.headers.clone(),
            });
        };
        let (noted, right) = (Arc::clone(&log), case.server.clone());
        let other = FaultServer::share(Arc::clone(&served), move |asked, served, to| {
            note(&noted, asked, true);
            perform(&right, asked, served, "", to)
        });
        let other_origin = other.url.trim_end_matches(PATH).to_owned();
        let noted = Arc::clone(&log);
        let script = Script {
            case,
            phase,
            times,
            requests: Mutex::new(0),
        };
        let home = FaultServer::share(served, move |asked, served, to| {
            note(&noted, asked, false);
            let answer = script.answer(asked, served);
            perform(&answer, asked, served, &other_origin, to)
        });
        Self {
            url: home.url.clone(),
            origins: [home, other],
            log,
        }
    }

    /// Returns the requests received so far.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        lock(&self.log).clone()
    }
}

impl Drop for CaseServer {
    fn drop(&mut self) {
        self.origins.iter().for_each(FaultServer::stop);
    }
}

impl Script {
    fn answer(&self, asked: &Asked, served: &Served) -> Answer {
        let case = &self.case;
        if asked.path != PATH {
            return case.server.clone();
        }
        let mut requests = lock(&self.requests);
        let first_fault = usize::from(self.phase == Phase::Later);
        let fault = requests.checked_sub(first_fault).and_then(|number| {
            let last = case.faults.len().checked_sub(1)?;
            match self.times {
                Times::Once => case.faults.get(number),
                Times::Always => case.faults.get(number.min(last)),
            }
        });
        // Concurrent requests can arrive in any order. A fault that has no effect on
        // this request is postponed to the next one.
        let is_noticed =
            fault.is_none_or(|fault| fault.is_noticed_in(asked.range.as_ref(), served.bytes.len()));
        *requests += usize::from(is_noticed);
        drop(requests);
        let special = match (&*asked.method, &asked.range) {
            ("HEAD", _) => case.head.as_ref(),
            (_, None) => case.whole.as_ref(),
            _ => None,
        };
        match fault.or(special) {
            Some(answer) => answer.on(&case.server),
            None => case.server.clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
