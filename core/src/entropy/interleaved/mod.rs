//! Range ANS with many interleaved states and a choice of tables for each
//! symbol (docs/formats/zxd1.md 7 and 8).
//!
//! Symbol `i` belongs to state `i mod N` of 8, 16 or 32 states. Between
//! symbols, a state is a 32-bit number of at least `2^16`, and it consumes at
//! most one 16-bit word after each symbol. All states share one stream of
//! words.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod decode;
mod encode;
mod frequencies;
mod side_stream;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;

pub(crate) use decode::decode_together;
pub use decode::{DecodeTables, Decoder, StreamPart};
pub(crate) use encode::encode_one_table;
pub use encode::{EncodeTables, encode};
pub(crate) use frequencies::{FRACTION_BITS, entropy_cost, table_cost};
pub use frequencies::{Frequencies, log2};
pub use side_stream::{SideStream, encode as encode_side_stream};

/// Number of bits of a slot. Frequencies sum to `1 << SLOT_BITS`.
pub(crate) const SLOT_BITS: u32 = 12;
/// The sum of the frequencies of a table.
pub(crate) const SLOTS: u32 = 1 << SLOT_BITS;
/// The maximum number of tables that the symbols of a stream choose from.
pub(crate) const MAX_TABLES: usize = 16;
/// The maximum number of states of a stream.
pub(crate) const MAX_STATES: usize = 32;
/// The number of states of a side stream, and the number of symbols that a
/// decoder processes at once.
pub(crate) const MIN_STATES: usize = 8;

/// The lower bound of a state, and its value before the first symbol is
/// encoded.
const LOWER: u32 = 1 << 16;
