//! Replaces `virtual_tensors` in builds that do not list the tensors of other
//! formats in ZSTN files. Its types have no values.

use serde::{Deserialize, Serialize};

/// How the values of a tensor are read from the entry that holds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Reading {}
