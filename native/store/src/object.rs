//! Reading an object by ranges.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};

use crate::client::Purpose;
use crate::connection::{Connection, connect};
use crate::failure::{Failure, Kind};
use crate::{Address, Error, Result, StoreOptions, runtime};

/// The largest number of requests that one call has under way.
const READS_AT_ONCE: usize = 8;

/// An object in a store: the version that was there when it was opened.
///
/// Every request carries the condition that the version is the same, and every
/// answer is compared with it; where a store has no version (ETag), time and
/// length are compared. A read returns exactly the bytes asked for or an error.
#[derive(Clone)]
pub struct Object {
    inner: Arc<Inner>,
    head: Arc<[u8]>,
}

struct Inner {
    connection: Arc<Connection>,
    address: Address,
    path: Path,
    opened: ObjectMeta,
}

impl Object {
    /// Opens the object at `address`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none, and those of requests:
    /// [`Error::NoCredentials`], [`Error::Denied`], [`Error::NoContainer`],
    /// [`Error::WrongRegion`], [`Error::Network`], [`Error::Server`].
    pub fn open(address: &Address, options: &StoreOptions) -> Result<Self> {
        let connection = connect(address, options, Purpose::Read)?;
        let path = address.object_path()?;
        let opened = head(&connection, address, &path)?;
        Ok(Self::new(connection, address, path, opened, Vec::new()))
    }

    /// Opens the object at `address` and reads its first bytes with the same
    /// request: `head_len_bytes`, or all of a shorter object. [`Object::head`]
    /// returns them.
    ///
    /// # Errors
    /// Those of [`Object::open`].
    pub fn open_with_head(
        address: &Address,
        head_len_bytes: u64,
        options: &StoreOptions,
    ) -> Result<Self> {
        if head_len_bytes == 0 {
            return Self::open(address, options);
        }
        let connection = connect(address, options, Purpose::Read)?;
        let path = address.object_path()?;
        let get = GetOptions::new().with_range(Some(GetRange::Bounded(0..head_len_bytes)));
        let (store, location) = (Arc::clone(&connection), path.clone());
        let answer = runtime::wait(async move {
            let result = store.objects.get_opts(&location, get).await?;
            let meta = result.meta.clone();
            let len = result.range.end - result.range.start;
            Ok((meta, collect(result, len).await?))
        })?;
        let (opened, head) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // Of an empty object there is no range.
                let failure = Failure::new(&error);
                let may_be_empty =
                    failure.kind == Kind::Other && matches!(failure.status, None | Some(416));
                let meta = may_be_empty.then(|| head_of(&connection, &path));
                match meta.transpose()? {
                    Some(Ok(meta)) if meta.size == 0 => (meta, Vec::new()),
                    _ => return Err(failure.into_error(address)),
                }
            }
        };
        Ok(Self::new(connection, address, path, opened, head))
    }

    fn new(
        connection: Arc<Connection>,
        address: &Address,
        path: Path,
        opened: ObjectMeta,
        head: Vec<u8>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                connection,
                address: address.clone(),
                path,
                opened,
            }),
            head: head.into(),
        }
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.inner.opened.size
    }

    /// Returns the store's name for the version that was opened, if it has one.
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
    /// [`Error::Range`] if it is not inside the object, [`Error::Changed`] if the
    /// object is another one by now, and those of requests.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        self.check(&range)?;
        let inner = Arc::clone(&self.inner);
        runtime::wait(async move { inner.get(range).await })?
    }

    /// Reads several ranges with up to 8 requests at the same time, one for each
    /// range that is not empty, and returns them in order.
    ///
    /// # Errors
    /// Those of [`Object::read`]; no request begins after an error.
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        ranges.iter().try_for_each(|range| self.check(range))?;
        let inner = Arc::clone(&self.inner);
        let ranges = ranges.to_vec();
        runtime::wait(async move {
            let reads = ranges.into_iter().map(|range| {
                let inner = Arc::clone(&inner);
                async move { inner.get(range).await }
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
    async fn get(&self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let len = range.end - range.start;
        let options = GetOptions::new()
            .with_if_match(self.opened.e_tag.clone())
            .with_range(Some(GetRange::Bounded(range)));
        let answer = self.connection.objects.get_opts(&self.path, options).await;
        let answer = answer.map_err(|error| self.failed(&error))?;
        self.compare(&answer.meta)?;
        let bytes = collect(answer, len).await;
        let bytes = bytes.map_err(|error| self.failed(&error))?;
        if bytes.len() as u64 == len {
            return Ok(bytes);
        }
        Err(Error::Server {
            url: self.address.url(),
            status: None,
            detail: format!("with {} of {len} bytes; try again", bytes.len()),
        })
    }

    /// Refuses an answer about another version.
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
            (Kind::Condition, _) => self.changed(""),
            (_, Some(416)) => self.changed(" and has become shorter"),
            _ => match failure.into_error(&self.address) {
                Error::NotFound { .. } => self.changed(": it no longer exists"),
                error => error,
            },
        }
    }
}

/// Collects a body of `len` bytes. More than that is not read, and refused by
/// the caller, who compares the lengths.
pub(crate) async fn collect(result: GetResult, len: u64) -> object_store::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX));
    reserved.map_err(|error| object_store::Error::Generic {
        store: "memory",
        source: Box::new(error),
    })?;
    let mut body = result.into_stream();
    while let Some(chunk) = body.try_next().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > len {
            break;
        }
    }
    Ok(bytes)
}

/// Returns what the store says of an object without reading it.
pub(crate) fn head(
    connection: &Arc<Connection>,
    address: &Address,
    path: &Path,
) -> Result<ObjectMeta> {
    head_of(connection, path)?.map_err(|error| Failure::new(&error).into_error(address))
}

fn head_of(connection: &Arc<Connection>, path: &Path) -> Result<object_store::Result<ObjectMeta>> {
    let (store, path) = (Arc::clone(connection), path.clone());
    runtime::wait(async move {
        let options = GetOptions::new().with_head(true);
        Ok(store.objects.get_opts(&path, options).await?.meta)
    })
}
