//! The objects in a folder.

use std::sync::Arc;

use futures_util::TryStreamExt;

use crate::client::Purpose;
use crate::connection::connect;
use crate::failure::Failure;
use crate::{Address, Result, StoreOptions, runtime};

/// An object in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedObject {
    /// Its name relative to the folder, with slashes between components.
    pub path: String,
    /// Its length in bytes.
    pub len_bytes: u64,
}

/// Returns the objects below the folder `address`, at any depth, sorted by name.
/// A folder without objects does not exist in a store, so its list is empty.
///
/// # Errors
/// Those of requests; see [`Object::open`](crate::Object::open).
pub fn list(address: &Address, options: &StoreOptions) -> Result<Vec<ListedObject>> {
    let connection = connect(address, options, Purpose::Read)?;
    let folder = address.path()?;
    let store = Arc::clone(&connection.objects);
    let found = runtime::wait(async move {
        let prefix = (!folder.as_ref().is_empty()).then_some(&folder);
        let mut found = Vec::new();
        let mut objects = store.list(prefix);
        while let Some(object) = objects.try_next().await? {
            let name = object.location.as_ref();
            let path = match prefix {
                None => Some(name),
                Some(prefix) => name
                    .strip_prefix(prefix.as_ref())
                    .and_then(|rest| rest.strip_prefix('/')),
            };
            if let Some(path) = path.filter(|path| !path.is_empty()) {
                found.push(ListedObject {
                    path: path.into(),
                    len_bytes: object.size,
                });
            }
        }
        found.sort();
        Ok(found)
    })?;
    found.map_err(|error: object_store::Error| Failure::new(&error).into_error(address))
}
