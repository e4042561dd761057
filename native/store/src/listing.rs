//! Listing the objects in a folder.

use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::connection::connect;
use crate::http_client::Purpose;
use crate::object_store_error::Failure;
use crate::{Address, Result, StoreOptions, http_client};

/// An object in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedObject {
    /// Name relative to the folder, with slashes between components.
    pub path: String,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Entity tag of the listed version, if the store lists tags. Different versions have
    /// different tags.
    pub tag: Option<String>,
}

/// Returns the objects below the folder `address`, at any depth, sorted by name. Object
/// stores have no empty folders, so a missing folder has an empty list.
///
/// # Errors
/// Errors of requests; see [`Object::open`](crate::Object::open).
pub fn list(address: &Address, options: &StoreOptions) -> Result<Vec<ListedObject>> {
    let connection = connect(address, options, Purpose::Read)?;
    let folder = address.path()?;
    let store = Arc::clone(&connection.objects);
    let found = http_client::wait(async move {
        let mut objects = store.list(prefix(&folder));
        let mut found = Vec::new();
        while let Some(object) = objects.try_next().await? {
            found.extend(listed(&folder, &object));
        }
        found.sort();
        Ok(found)
    })?;
    found.map_err(|error| failed(address, &error))
}

/// Returns the objects directly in the folder `address`, sorted by name. Objects in
/// subfolders are not requested from the store.
///
/// # Errors
/// Errors of requests; see [`Object::open`](crate::Object::open).
pub fn list_top(address: &Address, options: &StoreOptions) -> Result<Vec<ListedObject>> {
    let connection = connect(address, options, Purpose::Read)?;
    let folder = address.path()?;
    let store = Arc::clone(&connection.objects);
    let found = http_client::wait(async move {
        let result = store.list_with_delimiter(prefix(&folder)).await?;
        let objects = result.objects.iter();
        let mut found: Vec<_> = objects
            .filter_map(|object| listed(&folder, object))
            .collect();
        found.sort();
        Ok(found)
    })?;
    found.map_err(|error| failed(address, &error))
}

/// Returns the name of an object below the folder `address`, at any depth, other than
/// `except`. Pages of the listing after that object are not requested.
pub(crate) fn find_other(
    address: &Address,
    except: &'static str,
    options: &StoreOptions,
) -> Result<Option<String>> {
    let connection = connect(address, options, Purpose::Read)?;
    let folder = address.path()?;
    let store = Arc::clone(&connection.objects);
    let found = http_client::wait(async move {
        let mut objects = store.list(prefix(&folder));
        while let Some(object) = objects.try_next().await? {
            let found = listed(&folder, &object).map(|object| object.path);
            if let Some(path) = found.filter(|path| path != except) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    })?;
    found.map_err(|error| failed(address, &error))
}

fn prefix(folder: &Path) -> Option<&Path> {
    (!folder.as_ref().is_empty()).then_some(folder)
}

/// Returns an object with its name relative to the folder; `None` for the object that
/// some programs create for the folder itself.
fn listed(folder: &Path, object: &ObjectMeta) -> Option<ListedObject> {
    let name = object.location.as_ref();
    let path = match prefix(folder) {
        None => Some(name),
        Some(prefix) => name
            .strip_prefix(prefix.as_ref())
            .and_then(|rest| rest.strip_prefix('/')),
    };
    path.filter(|path| !path.is_empty())
        .map(|path| ListedObject {
            path: path.into(),
            len_bytes: object.size,
            tag: object.e_tag.clone(),
        })
}

fn failed(address: &Address, error: &object_store::Error) -> crate::Error {
    Failure::new(error).into_error(address)
}
