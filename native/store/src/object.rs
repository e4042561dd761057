//! Reading an object by ranges.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::connection::{Connection, connect};
use crate::http_client::{self, Fault, Purpose};
use crate::object_store_error::{Failure, FailureKind};
use crate::{Address, Error, RequestLimits, Result, StoreOptions};

/// Maximum number of requests that one call has in flight.
const READS_AT_ONCE: usize = 8;

/// An object in a store, pinned to the version that existed when it was opened.
///
/// Every request is conditional on that version, and every response is compared with
/// it. If a store has no entity tags, modification time and length are compared
/// instead. A read returns exactly the requested bytes, or an error.
#[derive(Clone)]
pub struct Object {
    inner: Arc<Inner>,
    head: Arc<[u8]>,
}

struct Inner {
    objects: Arc<dyn ObjectStore>,
    address: Address,
    path: Path,
    opened: ObjectMeta,
    limits: RequestLimits,
}

impl Object {
    /// Opens the object at `address`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the object does not exist, and errors of requests:
    /// [`Error::NoCredentials`], [`Error::Denied`], [`Error::NoContainer`],
    /// [`Error::WrongRegion`], [`Error::Network`], [`Error::Server`].
    pub fn open(address: &Address, options: &StoreOptions) -> Result<Self> {
        Self::open_with_head(address, 0, options)
    }

    /// Opens the object at `path` in any store of the `object_store` crate. The store
    /// makes its own connections, so `options` provides the time limits only.
    ///
    /// # Errors
    /// The same as [`Object::open`].
    pub async fn open_in(
        store: Arc<dyn ObjectStore>,
        path: Path,
        options: &StoreOptions,
    ) -> Result<Self> {
        let address = Address::in_store(&*store, &path);
        let get = GetOptions::new().with_head(true);
        let opened = http_client::within(store.get_opts(&path, get)).await?;
        let opened = opened.map_err(|error| Failure::new(&error).into_error(&address))?;
        Ok(Self::new(store, &address, path, opened.meta, options))
    }

    /// Opens the object at `address` and reads its first bytes with the same request:
    /// up to `head_len_bytes`, fewer if the object is shorter. [`Object::head`] returns
    /// them.
    ///
    /// # Errors
    /// The same as [`Object::open`].
    pub fn open_with_head(
        address: &Address,
        head_len_bytes: u64,
        options: &StoreOptions,
    ) -> Result<Self> {
        http_client::wait(Self::begin(address, head_len_bytes, options))?
    }

    /// Opens the object like [`Object::open_with_head`] without blocking a thread, on any
    /// executor.
    ///
    /// # Errors
    /// The same as [`Object::open`].
    pub async fn open_with_head_async(
        address: &Address,
        head_len_bytes: u64,
        options: &StoreOptions,
    ) -> Result<Self> {
        http_client::within(Self::begin(address, head_len_bytes, options)).await?
    }

    async fn begin(address: &Address, head_len_bytes: u64, options: &StoreOptions) -> Result<Self> {
        let connection = connect(address, options, Purpose::Read)?;
        let path = address.object_path()?;
        let open = |meta| {
            let objects = Arc::clone(&connection.objects);
            Self::new(objects, address, path.clone(), meta, options)
        };
        let fail = |error: &_| Failure::new(error).into_error(address);
        if head_len_bytes == 0 {
            let meta = head_of(&connection, &path).await;
            return Ok(open(meta.map_err(|error| fail(&error))?));
        }
        let get = GetOptions::new().with_range(Some(GetRange::Bounded(0..head_len_bytes)));
        let result = match connection.objects.get_opts(&path, get).await {
            Ok(result) => result,
            Err(error) => {
                // An empty object has no range, so the request for its first bytes
                // fails.
                let failure = Failure::new(&error);
                if failure.kind == FailureKind::Other
                    && matches!(failure.status, None | Some(416))
                    && let Ok(meta) = head_of(&connection, &path).await
                    && meta.size == 0
                {
                    return Ok(open(meta));
                }
                return Err(failure.into_error(address));
            }
        };
        let object = open(result.meta.clone());
        let range = 0..head_len_bytes.min(object.len_bytes());
        let head = object.inner.fill(Some(result), range).await?;
        Ok(Self {
            head: head.into(),
            ..object
        })
    }

    fn new(
        objects: Arc<dyn ObjectStore>,
        address: &Address,
        path: Path,
        opened: ObjectMeta,
        options: &StoreOptions,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                objects,
                address: address.clone(),
                path,
                opened,
                limits: options.limits.clone(),
            }),
            head: Arc::default(),
        }
    }

    /// Returns the object's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// Returns the object's length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.inner.opened.size
    }

    /// Returns the entity tag of the version that was opened, if the store has one.
    #[must_use]
    pub fn e_tag(&self) -> Option<&str> {
        self.inner.opened.e_tag.as_deref()
    }

    /// Returns the bytes read by [`Object::open_with_head`].
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Reads the bytes of `range`.
    ///
    /// # Errors
    /// [`Error::Range`] if the range is not inside the object, [`Error::Changed`] if
    /// the object has been replaced or deleted, and errors of requests.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        self.check(&range)?;
        let inner = Arc::clone(&self.inner);
        http_client::wait(async move { inner.fill(None, range).await })?
    }

    /// Reads the bytes of `range` without blocking a thread, on any executor.
    ///
    /// # Errors
    /// The same as [`Object::read`].
    pub async fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>> {
        self.check(&range)?;
        http_client::within(self.inner.fill(None, range)).await?
    }

    /// Reads several ranges with up to 8 concurrent requests, one for each range that
    /// is not empty, and returns them in order.
    ///
    /// # Errors
    /// The same as [`Object::read`]; no request is sent after an error.
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        ranges.iter().try_for_each(|range| self.check(range))?;
        let inner = Arc::clone(&self.inner);
        let ranges = ranges.to_vec();
        http_client::wait(async move {
            let reads = ranges.into_iter().map(|range| {
                let inner = Arc::clone(&inner);
                async move { inner.fill(None, range).await }
            });
            stream::iter(reads)
                .buffered(READS_AT_ONCE)
                .try_collect()
                .await
        })?
    }

    fn check(&self, range: &Range<u64>) -> Result<()> {
        let len_bytes = self.len_bytes();
        if range.start <= range.end && range.end <= len_bytes {
            return Ok(());
        }
        Err(Error::Range {
            url: self.inner.address.url(),
            start: range.start,
            end: range.end,
            len_bytes,
        })
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("address", &self.inner.address)
            .field("len_bytes", &self.inner.opened.size)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Returns the bytes of `range`. If `answer` is given, it is a response whose body
    /// begins at the start of the range. A response that stops early is followed by a
    /// request for the remaining bytes.
    async fn fill(&self, mut answer: Option<GetResult>, range: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let started = Instant::now();
        let mut halts = 0;
        loop {
            let rest = range.start + bytes.len() as u64..range.end;
            if rest.is_empty() {
                return Ok(bytes);
            }
            let result = match answer.take() {
                Some(result) => result,
                None => self.ask(rest.clone()).await?,
            };
            let sent = &result.range;
            if *sent != rest {
                return Err(self.other_range(&rest, sent));
            }
            let len_bytes = rest.end - rest.start;
            let received =
                http_client::receive(result, len_bytes, self.limits.idle_timeout, &mut bytes);
            match received.await {
                Ok(()) => return Ok(bytes),
                Err(Fault::Store(error)) => return Err(self.failed(&error)),
                Err(Fault::Encoded(coding)) => {
                    return Err(self.unusable(format!(
                        "with a compressed copy ({coding}), in which positions mean nothing; \
                         store it without Content-Encoding"
                    )));
                }
                Err(Fault::TooLong) => {
                    return Err(self.unusable("with more bytes than were requested".into()));
                }
                Err(Fault::Halted) => {
                    halts += 1;
                    if halts > self.limits.retries || started.elapsed() > self.limits.give_up_after
                    {
                        let url = self.address.url();
                        let detail = "next to nothing came from it for too long".into();
                        return Err(Error::Network {
                            url,
                            detail,
                            source: None,
                        });
                    }
                }
            }
        }
    }

    async fn ask(&self, range: Range<u64>) -> Result<GetResult> {
        let options = GetOptions::new()
            .with_if_match(self.opened.e_tag.clone())
            .with_range(Some(GetRange::Bounded(range)));
        let answer = self.objects.get_opts(&self.path, options).await;
        let answer = answer.map_err(|error| self.failed(&error))?;
        self.compare(&answer.meta)?;
        Ok(answer)
    }

    fn other_range(&self, asked: &Range<u64>, sent: &Range<u64>) -> Error {
        self.unusable(format!(
            "with bytes {}..{} where {}..{} were requested",
            sent.start, sent.end, asked.start, asked.end
        ))
    }

    fn unusable(&self, detail: String) -> Error {
        Error::Server {
            url: self.address.url(),
            status: None,
            detail,
            source: None,
        }
    }

    /// Refuses a response about another version of the object.
    fn compare(&self, now: &ObjectMeta) -> Result<()> {
        let then = &self.opened;
        let is_same = match (&then.e_tag, &now.e_tag) {
            (Some(then), Some(now)) => then == now,
            _ => then.last_modified == now.last_modified,
        };
        match (is_same, then.size == now.size) {
            (true, true) => Ok(()),
            (_, true) => Err(self.changed("")),
            (_, false) => Err(self.changed(&format!(", from {} to {} bytes", then.size, now.size))),
        }
    }

    fn changed(&self, detail: &str) -> Error {
        Error::Changed {
            url: self.address.url(),
            detail: detail.into(),
        }
    }

    fn failed(&self, error: &object_store::Error) -> Error {
        let failure = Failure::new(error);
        match (failure.kind, failure.status) {
            (FailureKind::Condition, _) => self.changed(""),
            (_, Some(416)) => self.changed(" and has become shorter"),
            _ => match failure.into_error(&self.address) {
                Error::NotFound { .. } => self.changed(": it no longer exists"),
                error => error,
            },
        }
    }
}

/// Returns the metadata of an object without reading its content.
pub(crate) fn head(
    connection: &Arc<Connection>,
    address: &Address,
    path: &Path,
) -> Result<ObjectMeta> {
    http_client::wait(head_of(connection, path))?
        .map_err(|error| Failure::new(&error).into_error(address))
}

async fn head_of(connection: &Connection, path: &Path) -> object_store::Result<ObjectMeta> {
    let options = GetOptions::new().with_head(true);
    Ok(connection.objects.get_opts(path, options).await?.meta)
}

/// Returns the content of the object at `address`, or `None` if it does not exist.
///
/// # Errors
/// [`Error::TooLong`] if it is longer than `max_bytes`, and the errors of
/// [`Object::open`].
pub fn read_small(
    address: &Address,
    max_bytes: u64,
    options: &StoreOptions,
) -> Result<Option<Vec<u8>>> {
    let object = match Object::open_with_head(address, max_bytes.max(1), options) {
        Err(Error::NotFound { .. }) => return Ok(None),
        object => object?,
    };
    if object.len_bytes() > max_bytes {
        return Err(Error::TooLong {
            url: address.url(),
            detail: format!(
                "the object has {} bytes, and at most {max_bytes} make sense here; \
                 check the address",
                object.len_bytes()
            ),
        });
    }
    Ok(Some(object.head().to_vec()))
}

/// Returns whether an object exists at `address`. A missing bucket counts as a missing
/// object, because responses to `HEAD` requests have no body that would distinguish
/// them.
///
/// # Errors
/// The errors of [`Object::open`] except [`Error::NotFound`].
pub fn exists(address: &Address, options: &StoreOptions) -> Result<bool> {
    let connection = connect(address, options, Purpose::Read)?;
    match head(&connection, address, &address.object_path()?) {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. } | Error::NoContainer { .. }) => Ok(false),
        // The response to a `HEAD` request has no body and hence no reason. A `GET`
        // request finds out whether the clock or the keys are wrong.
        Err(Error::Denied { detail, .. }) if detail.is_empty() => {
            match Object::open_with_head(address, 1, options) {
                Ok(_) => Ok(true),
                Err(Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Deletes the object at `address` if it exists.
///
/// # Errors
/// The errors of [`Object::open`] except [`Error::NotFound`].
pub fn delete(address: &Address, options: &StoreOptions) -> Result<()> {
    // Like a read, this sends little and is answered soon; the longer time limits of
    // writes are meant for parts.
    let connection = connect(address, options, Purpose::Read)?;
    let path = address.object_path()?;
    let store = Arc::clone(&connection.objects);
    match http_client::wait(async move { store.delete(&path).await })? {
        Ok(()) => Ok(()),
        Err(error) => {
            let failure = Failure::new(&error);
            match failure.kind {
                FailureKind::NotFound if failure.code.as_deref() != Some("NoSuchBucket") => Ok(()),
                _ => Err(failure.into_error(address)),
            }
        }
    }
}
