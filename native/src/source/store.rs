//! Objects in a store such as S3, accessed with the crate `zstn-store`.

#[cfg(feature = "store")]
pub use linked::ObjectStoreSource;
#[cfg(feature = "store")]
pub use linked::{address, delete, exists, list, list_top, open_tagged};
#[cfg(feature = "store")]
pub(crate) use linked::{open, open_async, options, read_small};
#[cfg(not(feature = "store"))]
pub(crate) use missing::{list_top, open, read_small};

#[cfg(feature = "store")]
mod linked {
    use std::borrow::Cow;
    use std::ops::Range;
    use std::sync::Arc;

    use futures_util::{StreamExt, TryStreamExt, stream};
    use zstn_core::limits::HEAD_LEN_BYTES;
    use zstn_store::object_store::ObjectStore;
    use zstn_store::object_store::path::Path;
    use zstn_store::{Address, ListedObject, Object, StoreOptions};

    use crate::source::http::wait_unless_cancelled;
    use crate::source::merged::{MergedRange, in_order};
    use crate::source::parallel::READS_AT_ONCE;
    use crate::source::{AsyncSource, HttpOptions, Reading, Source, check_inside, merged};
    use crate::{CancelToken, Error, Location, Result};

    /// An object in a store, in the version that it had when it was opened. It is a
    /// [`Source`] and an [`AsyncSource`].
    ///
    /// Addresses such as `s3://bucket/name` are opened with
    /// [`Location::url`](crate::Location::url); this type is for stores that a program has
    /// configured itself with the crate [`object_store`](zstn_store::object_store).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// use std::sync::Arc;
    /// use zstn::Reader;
    /// use zstn::source::{HttpOptions, ObjectStoreSource};
    /// use zstn::source::object_store::{ObjectStore, ObjectStoreExt, memory::InMemory};
    ///
    /// let store = Arc::new(InMemory::new());
    /// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
    /// # let len = (header.len() as u64).to_le_bytes();
    /// # let bytes = [&len[..], header, &[1, 2, 3]].concat();
    /// store.put(&"model.safetensors".into(), bytes.into()).await?;
    ///
    /// let path = "model.safetensors".into();
    /// let source = ObjectStoreSource::open(store, path, &HttpOptions::default()).await?;
    /// let reader = Reader::options().open_async_source(source).await?;
    /// assert_eq!(reader.read("x").await?.bytes, [1, 2, 3]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct ObjectStoreSource {
        name: String,
        object: Object,
        cancel_token: CancelToken,
    }

    impl ObjectStoreSource {
        /// Opens the object at `path`. The store makes its own connections; `http`
        /// provides the time limits for reading.
        ///
        /// # Errors
        /// The object does not exist or cannot be read.
        pub async fn open(
            store: Arc<dyn ObjectStore>,
            path: Path,
            http: &HttpOptions,
        ) -> Result<Self> {
            let object = Object::open_in(store, path, &options(http)).await?;
            Ok(Self {
                name: object.address().url(),
                object,
                cancel_token: http.cancel_token.clone(),
            })
        }

        /// Reads a range. The first bytes of the object, which were read when it was
        /// opened, need no request.
        async fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>> {
            check_inside(self, &range)?;
            let head = self.object.head();
            if range.end <= head.len() as u64 {
                return Ok(zstn_core::bytes::part(head, range).to_vec());
            }
            Ok(self.object.fetch(range).await?)
        }

        async fn fetch_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
            for range in ranges {
                check_inside(self, range)?;
            }
            let merged = MergedRange::of(ranges);
            let requests = merged.iter().map(|merged| async move {
                let bytes = self.fetch(merged.range.clone()).await?;
                Ok(merged.split(ranges, Cow::Owned(bytes)))
            });
            let requests: Vec<_> = requests.collect();
            let fetched = stream::iter(requests).buffered(READS_AT_ONCE);
            let fetched: Result<Vec<_>> = fetched.try_collect().await;
            let parts = in_order(ranges.len(), fetched?);
            Ok(parts.into_iter().map(Cow::into_owned).collect())
        }
    }

    impl AsyncSource for ObjectStoreSource {
        fn name(&self) -> &str {
            &self.name
        }

        fn len_bytes(&self) -> u64 {
            self.object.len_bytes()
        }

        fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>> {
            Box::pin(self.fetch(range))
        }

        fn read_ranges<'a>(&'a self, ranges: &'a [Range<u64>]) -> Reading<'a, Vec<Vec<u8>>> {
            Box::pin(self.fetch_ranges(ranges))
        }
    }

    /// Opens the object at `url` and reads its first bytes.
    pub(crate) fn open(url: &str, http: &HttpOptions) -> Result<Box<dyn Source>> {
        let object = Object::open_with_head(&address(url)?, HEAD_LEN_BYTES, &options(http))?;
        Ok(Box::new(ObjectStoreSource {
            name: url.into(),
            object,
            cancel_token: http.cancel_token.clone(),
        }))
    }

    /// Opens the object at `url` for reading ranges without blocking a thread.
    pub(crate) async fn open_async(url: &str, http: &HttpOptions) -> Result<Arc<dyn AsyncSource>> {
        Ok(open_tagged(url, http).await?.0)
    }

    /// Opens the object at `url` for reading ranges without blocking a thread. Also
    /// returns its entity tag, if it has one.
    pub async fn open_tagged(
        url: &str,
        http: &HttpOptions,
    ) -> Result<(Arc<dyn AsyncSource>, Option<String>)> {
        let (address, options) = (address(url)?, options(http));
        let opening = Object::open_with_head_async(&address, HEAD_LEN_BYTES, &options);
        let object = opening.await?;
        let tag = object.e_tag().map(Into::into);
        let source = ObjectStoreSource {
            name: url.into(),
            object,
            cancel_token: http.cancel_token.clone(),
        };
        Ok((Arc::new(source), tag))
    }

    /// Reads a small object. An object of more than `max_bytes` is refused with the
    /// error `too_long`.
    pub(crate) fn read_small(
        url: &str,
        http: &HttpOptions,
        max_bytes: u64,
        too_long: impl FnOnce() -> Error,
    ) -> Result<Vec<u8>> {
        match zstn_store::read_small(&address(url)?, max_bytes, &options(http)) {
            Err(zstn_store::Error::TooLong { .. }) => Err(too_long()),
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(zstn_store::Error::NotFound { url: url.into() }.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the objects directly in the folder at `url`.
    pub fn list_top(url: &str, http: &HttpOptions) -> Result<Vec<ListedObject>> {
        Ok(zstn_store::list_top(&address(url)?, &options(http))?)
    }

    /// Lists the objects below the folder at `url`, at any depth.
    pub fn list(url: &str, http: &HttpOptions) -> Result<Vec<ListedObject>> {
        Ok(zstn_store::list(&address(url)?, &options(http))?)
    }

    /// Returns whether an object exists at `url`.
    pub fn exists(url: &str, http: &HttpOptions) -> Result<bool> {
        Ok(zstn_store::exists(&address(url)?, &options(http))?)
    }

    /// Deletes the object at `url`, if it exists.
    pub fn delete(url: &str, http: &HttpOptions) -> Result<()> {
        Ok(zstn_store::delete(&address(url)?, &options(http))?)
    }

    /// Converts the time limits, retries and observer of `http` to options for stores.
    pub(crate) fn options(http: &HttpOptions) -> StoreOptions {
        let mut options = StoreOptions::default();
        options.limits.retries = http.retries as usize;
        options.limits.connect_timeout = http.connect_timeout;
        options.limits.idle_timeout = http.idle_timeout;
        options.limits.give_up_after = http.give_up_after;
        options.observer = http.observer_of_stores();
        options
    }

    /// Parses the address of an object.
    pub fn address(url: &str) -> Result<Address> {
        Ok(Address::parse(url)?)
    }

    impl Source for ObjectStoreSource {
        fn name(&self) -> &str {
            &self.name
        }

        fn len_bytes(&self) -> u64 {
            self.object.len_bytes()
        }

        fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
            check_inside(self, &range)?;
            let head = self.object.head();
            if range.end <= head.len() as u64 {
                return Ok(Cow::Borrowed(zstn_core::bytes::part(head, range)));
            }
            let reading = async { Ok(self.object.fetch(range).await?) };
            wait_unless_cancelled(&self.cancel_token, reading).map(Cow::Owned)
        }

        fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
            merged::read(self, ranges, |range| Source::read(self, range))
        }

        fn is_remote(&self) -> bool {
            true
        }
    }

    impl From<zstn_store::Error> for Error {
        fn from(error: zstn_store::Error) -> Self {
            use zstn_store::Error as Store;
            let text = error.to_string();
            // Returns the message without the address at its start.
            let detail = |url: &str| match text.strip_prefix(url) {
                Some(rest) => rest.trim_start_matches(": ").to_owned(),
                None => text.clone(),
            };
            let answer = |url: String, status| Self::http(&url, detail(&url), status);
            match error {
                Store::Io { action, source } => Self::Io { action, source },
                Store::Changed { url, detail } => Self::Changed { name: url, detail },
                Store::Exists { url, lost_race } => Self::Exists {
                    location: Location::url(url),
                    detail: match lost_race {
                        true => ": another writer was first, and this result is discarded".into(),
                        false => String::new(),
                    },
                },
                Store::NotFound { url } | Store::NoContainer { url, .. } => answer(url, Some(404)),
                Store::Denied { url, .. } => answer(url, Some(403)),
                Store::NoConditions { url, status } => answer(url, status),
                Store::WrongRegion { url, .. } | Store::PartsLost { url } => answer(url, None),
                Store::Server {
                    url,
                    status,
                    source,
                    ..
                } => answer(url, status).with_source(source),
                Store::Network { url, source, .. } => {
                    Self::unanswered(&url, detail(&url)).with_source(source)
                }
                _ => Self::Usage(text),
            }
        }
    }
}

#[cfg(not(feature = "store"))]
mod missing {
    use crate::source::{HttpOptions, Source};
    use crate::{Error, Result};

    /// An object in a folder.
    pub(crate) struct ListedObject {
        pub(crate) path: String,
    }

    pub(crate) fn list_top(url: &str, _: &HttpOptions) -> Result<Vec<ListedObject>> {
        Err(error(url))
    }

    pub(crate) fn open(url: &str, _: &HttpOptions) -> Result<Box<dyn Source>> {
        Err(error(url))
    }

    pub(crate) fn read_small(
        url: &str,
        _: &HttpOptions,
        _: u64,
        _: impl FnOnce() -> Error,
    ) -> Result<Vec<u8>> {
        Err(error(url))
    }

    /// Returns the error for an address in an object store, which this build cannot
    /// read.
    fn error(url: &str) -> Error {
        Error::Usage(format!(
            "{url} is in an object store, and this program was built without object stores; use a \
             local file, or an https:// address"
        ))
    }
}
