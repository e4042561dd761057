//! Reading a small object whole, and checking for or deleting an object.

use std::sync::Arc;

use object_store::ObjectStoreExt;

use crate::client::Purpose;
use crate::connection::connect;
use crate::failure::{Failure, Kind};
use crate::object::head;
use crate::{Address, Error, Object, Result, StoreOptions, runtime};

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
    match runtime::wait(async move { store.delete(&path).await })? {
        Ok(()) => Ok(()),
        Err(error) => {
            let failure = Failure::new(&error);
            match failure.kind {
                Kind::NotFound if failure.code.as_deref() != Some("NoSuchBucket") => Ok(()),
                _ => Err(failure.into_error(address)),
            }
        }
    }
}
