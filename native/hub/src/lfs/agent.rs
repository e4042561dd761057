//! The transfer agent, which git-lfs starts to transfer objects: to a store, or to an LFS
//! server that supports packed objects.

use std::fs::File;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::git_repository::{GitRepository, Scratch};
use super::messages::{
    Action, Channel, Meter, Problem, Replies, Request, Response, Stage, Transfer, receive,
};
use super::object::{Fault, ObjectPacker};
use super::store::{Oid, Store};
use zstn::display::Escaped;
use zstn::internals::{is_server, put_watched};
use zstn::source::HttpOptions;
use zstn::{Engine, Error, Location, Result};

/// The error code that git-lfs shows if the agent cannot start.
const NOT_READY: u16 = 32;

/// Transfers objects for git-lfs, packing uploads and unpacking downloads. The objects
/// go to the LFS server that git-lfs talks to or, without one, to a store.
///
/// Safetensors files are packed if that makes them smaller; other files are stored as
/// they are. All threads work on each object, so git-lfs needs to start only one agent.
pub struct Agent {
    engine: Engine,
    store: Option<Store>,
    memory_bytes: u64,
    extended: bool,
    http: HttpOptions,
}

impl Agent {
    /// Creates an agent for objects on a server.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Self {
            engine: engine.clone(),
            store: None,
            memory_bytes: 1 << 30,
            extended: false,
            http: HttpOptions::default(),
        }
    }

    /// Sets the store that is used for an object if git-lfs names no server for it.
    #[must_use]
    pub fn store(mut self, store: Store) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the approximate memory limit in bytes, 1 GiB by default. A single tensor
    /// may exceed it.
    #[must_use]
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets whether extension frames are written where they are smaller
    /// ([`PackOptions::extended`](zstn::PackOptions::extended)); off by default.
    #[must_use]
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    /// Sets time limits and retries.
    #[must_use]
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Answers the messages of git-lfs until it terminates the session. An object that
    /// cannot be transferred is reported to git-lfs and is not an error of this call.
    ///
    /// # Errors
    /// Messages outside the protocol, and pipes that are closed before an answer has
    /// been written.
    pub fn run(&self, mut from: impl BufRead, to: impl Write + Send) -> Result<()> {
        let channel = Channel::new(to);
        let mut session = None;
        loop {
            let (transfer, is_upload) = match receive(&mut from)? {
                None | Some(Request::Terminate) => return Ok(()),
                Some(Request::Init) => {
                    channel.send(&match self.begin() {
                        Ok(begun) => {
                            session = Some(begun);
                            Response::Ready {}
                        }
                        Err(error) => Response::NotReady {
                            error: problem(&error, NOT_READY),
                        },
                    })?;
                    continue;
                }
                Some(Request::Upload(transfer)) => (transfer, true),
                Some(Request::Download(transfer)) => (transfer, false),
            };
            let Some(scratch) = &session else {
                return Err(Error::Usage(
                    "git-lfs has to send an init message before any other".into(),
                ));
            };
            self.answer(&channel, scratch, &transfer, is_upload)?;
        }
    }

    fn begin(&self) -> Result<Scratch> {
        if let Some(store) = &self.store {
            store.check(&self.http)?;
        }
        Scratch::create(GitRepository::find()?.as_ref())
    }

    /// Transfers one object and reports the result.
    fn answer(
        &self,
        channel: &dyn Replies,
        scratch: &Scratch,
        transfer: &Transfer,
        is_upload: bool,
    ) -> Result<()> {
        let packer = ObjectPacker {
            engine: &self.engine,
            memory_bytes: self.memory_bytes,
            extended: self.extended,
            scratch,
        };
        let moved = transfer.oid.parse().and_then(|oid: Oid| {
            let meter = Meter::new(channel, oid.as_str(), transfer.size);
            let path = match is_upload {
                true => self.upload(&packer, &oid, transfer, &meter).map(|()| None),
                false => self.download(&packer, &oid, transfer, &meter).map(Some),
            }?;
            meter.finish()?;
            Ok(path)
        });
        packer.tidy();
        let oid = &transfer.oid;
        let response = match &moved {
            Ok(None) => Response::complete(oid, None),
            Ok(Some(path)) => match path.to_str() {
                Some(path) => Response::complete(oid, Some(path)),
                None => Response::failed(
                    oid,
                    Problem {
                        code: 500,
                        message: "the path of this repository is not Unicode, and git-lfs takes \
                                  no other; move it"
                            .into(),
                    },
                ),
            },
            Err(error) => {
                let mut problem = problem(error, code(error));
                // The query of an address may contain a signature.
                if let Some(action) = &transfer.action
                    && let Some((shown, _)) = action.href.split_once('?')
                {
                    problem.message = problem.message.replace(&action.href, shown);
                }
                Response::failed(oid, problem)
            }
        };
        channel.send(&response)
    }

    fn upload(
        &self,
        packer: &ObjectPacker<'_>,
        oid: &Oid,
        transfer: &Transfer,
        meter: &Meter<'_>,
    ) -> Result<()> {
        let store = match &transfer.action {
            Some(_) => None,
            None => Some(self.needed_store()?),
        };
        if let Some(store) = store
            && store.contains(oid, &self.http)?
        {
            let stages = (meter.stage(0, 1, 2), meter.stage(1, 2, 2));
            return self.check_stored(packer, store, oid, transfer.size, stages);
        }
        let original = Path::new(&transfer.path);
        check_local(original, oid, transfer.size)?;
        let (packing, checking) = (meter.stage(0, 2, 6), meter.stage(2, 3, 6));
        let (stored, sending) = match packer.pack(original, Some(oid), &packing, &checking)? {
            Some(stored) => (stored, meter.stage(3, 4, 6)),
            None => (packer.plain(original)?, meter.stage(0, 4, 6)),
        };
        match (&transfer.action, store) {
            (Some(action), _) => {
                send_object(action, &stored.file, stored.len_bytes, &self.http, &sending)
            }
            (None, Some(store)) => {
                store.create(oid, &stored.file, stored.len_bytes, &self.http, &sending)?;
                let stages = (meter.stage(4, 5, 6), meter.stage(5, 6, 6));
                self.check_stored(packer, store, oid, transfer.size, stages)
            }
            (None, None) => Ok(()),
        }
    }

    /// Reads an object back from the store and checks the SHA-256 of the file that it
    /// restores. This is needed because git-lfs may prune its local copy after an
    /// upload.
    fn check_stored(
        &self,
        packer: &ObjectPacker<'_>,
        store: &Store,
        oid: &Oid,
        size: u64,
        (fetching, restoring): (Stage<'_>, Stage<'_>),
    ) -> Result<()> {
        let location = store.location(oid);
        let checked = packer
            .fetch(&location, &self.http, size, &fetching)
            .and_then(|fetched| packer.check(fetched, size, oid, &restoring));
        checked.map_err(|fault| {
            let gone = match fault {
                Fault::Missing => store.check_folder().err(),
                _ => None,
            };
            gone.unwrap_or_else(|| fault.describe(&location, oid, size))
        })
    }

    fn download(
        &self,
        packer: &ObjectPacker<'_>,
        oid: &Oid,
        transfer: &Transfer,
        meter: &Meter<'_>,
    ) -> Result<PathBuf> {
        let (location, http) = match &transfer.action {
            Some(action) => request_of(action, &self.http)?,
            None => (self.needed_store()?.location(oid), self.http.clone()),
        };
        let (fetching, restoring) = (meter.stage(0, 1, 2), meter.stage(1, 2, 2));
        let restored = packer
            .fetch(&location, &http, transfer.size, &fetching)
            .and_then(|fetched| packer.restore(fetched, transfer.size, oid, &restoring));
        restored.map_err(|fault| {
            let gone = match (&fault, &self.store) {
                (Fault::Missing, Some(store)) => store.check_folder().err(),
                _ => None,
            };
            gone.unwrap_or_else(|| fault.describe(&location, oid, transfer.size))
        })
    }

    fn needed_store(&self) -> Result<&Store> {
        self.store.as_ref().ok_or_else(|| {
            Error::Usage(
                "the server names no address for this object, and the agent has no store; \
                 `zstn lfs install --store LOCATION` gives it one"
                    .into(),
            )
        })
    }
}

/// Refuses a damaged local object. Otherwise the damage would be noticed only in the
/// store, when the last good copy may be gone.
fn check_local(path: &Path, oid: &Oid, size: u64) -> Result<()> {
    let metadata = path.metadata().map_err(Error::file("read", path))?;
    let found = Oid::of_file(path)?;
    if metadata.len() == size && found == *oid {
        return Ok(());
    }
    Err(Error::Differs {
        detail: format!(
            "the local copy {} of the object is damaged; `git lfs fsck` finds such copies",
            path.display()
        ),
    })
}

fn code(error: &Error) -> u16 {
    match error {
        Error::Http { status, .. } => status.unwrap_or(500),
        Error::Io { .. } => 500,
        _ => 422,
    }
}

/// Returns an error as a single line.
fn problem(error: &Error, code: u16) -> Problem {
    Problem {
        code,
        message: Escaped(error).to_string(),
    }
}

/// Headers that concern the framing or the connection of a request. The client sets
/// them itself and ignores a server's values.
const FRAMING: [&str; 10] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Minimum rate, in bytes per second, of a server that checks a received object before
/// it answers.
const CHECKED_BYTES_PER_SECOND: u64 = 10_000_000;

/// Returns the location of an action, and HTTP options with its headers, which are sent
/// to that origin only.
///
/// # Errors
/// [`Error::Usage`] for an invalid address or header. The message does not contain
/// header values, because they are secrets.
fn request_of(action: &Action, http: &HttpOptions) -> Result<(Location, HttpOptions)> {
    if !is_server(&action.href) {
        return Err(Error::Usage(
            "the server named an address that is not one of http or https".into(),
        ));
    }
    let mut http = http.clone();
    for (name, value) in action.header.iter().flatten() {
        if FRAMING.contains(&&*name.to_ascii_lowercase()) {
            continue;
        }
        http = http.header(&action.href, name, value)?;
    }
    Ok((Location::url(&action.href), http))
}

/// Sends an object in one PUT request.
///
/// # Errors
/// The errors of the request.
fn send_object(
    action: &Action,
    stored: &File,
    len_bytes: u64,
    http: &HttpOptions,
    progress: &Stage<'_>,
) -> Result<()> {
    let (_, mut http) = request_of(action, http)?;
    // The server may unpack the object and check its SHA-256 before it answers.
    let checking = Duration::from_secs(len_bytes / CHECKED_BYTES_PER_SECOND);
    http.idle_timeout += checking;
    http.give_up_after += 2 * checking;
    let sent = |sent_bytes| {
        progress.at(sent_bytes, len_bytes);
        Ok(())
    };
    put_watched(&action.href, stored, len_bytes, &http, true, &sent)
}
