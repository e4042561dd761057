//! Chooses the best base for a checkpoint among a family of checkpoints. Sketches are
//! compared, so neither checkpoint is read in full (docs/families.md).
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! # let header = br#"{"x":{"dtype":"BF16","shape":[40000],"data_offsets":[0,80000]}}"#;
//! # let len = (header.len() as u64).to_le_bytes();
//! # let weights: Vec<u8> = (0..40000u32).flat_map(|n| ((n * n % 65521) as u16).to_le_bytes()).collect();
//! # std::fs::create_dir("models")?;
//! # std::fs::write("models/base.safetensors", [&len[..], header, &weights].concat())?;
//! # let mut tuned = weights; tuned[5] ^= 1;
//! # std::fs::write("tuned.safetensors", [&len[..], header, &tuned].concat())?;
//! use zstn::family::{self, FamilyOptions};
//! use zstn::{Job, PackOptions};
//!
//! let job = Job::new();
//! let options = FamilyOptions::default();
//! let choice = family::choose(&job, "tuned.safetensors", "models", &options)?;
//! let packing = choice.add_to(PackOptions::default());
//! let found = choice.base.expect("a base");
//! println!("expects {} bytes against {}", found.estimate.packed_bytes, found.name);
//! zstn::pack(&job, "tuned.safetensors", "tuned.z4dm", &packing)?;
//! # Ok(())
//! # }
//! ```

mod bases;
mod chain;
mod choice;
mod index;
mod members;
mod merge;
mod same_checkpoint;
mod sketching;
mod sources;
mod target;

pub use bases::{Candidate, bases};
pub use choice::{BaseChoice, ChosenBase, FamilyOptions, MIN_SAVING_PERCENT, choose};
pub use sketching::{Digests, SavedSketch, SketchOptions, save_sketch, sketch};
pub use zstn_core::sketch::{SizeEstimate, Sketch};
