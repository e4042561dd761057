//! Encoder of order-0 streams, which proceeds from the last symbol to the first
//! (5.3).

use alloc::vec::Vec;

use super::{BITS, STATES};
use crate::engine::Engine;
#[cfg(target_arch = "x86_64")]
use crate::entropy::rans::state::PackedCode;
use crate::entropy::rans::state::{Divided, Emitted, LOWER};
use crate::entropy::rans::table::Code;
use crate::kernel::{self, Kernel};

/// Number of streams that are encoded side by side, which is enough to keep a
/// processor busy.
pub(in crate::entropy::rans) const SIDE_BY_SIDE: usize = 2;

/// Symbols to encode as one stream, and the codes of all symbols that occur.
#[derive(Clone, Copy)]
pub(in crate::entropy::rans) struct Plain<'a> {
    pub symbols: &'a [u8],
    pub codes: &'a [Code; 256],
}

/// Encodes at most [`SIDE_BY_SIDE`] streams together.
pub(in crate::entropy::rans) fn encode<E: Engine>(engine: &E, streams: &[Plain]) -> Vec<Vec<u8>> {
    let begun = streams.iter().map(|plain| Encoding::new(engine, *plain));
    let mut streams: Vec<Encoding> = begun.collect();
    encode_vectors(&mut streams);
    let finished = streams.into_iter().map(|stream| stream.finish(engine));
    finished.collect()
}

/// Encodes with vectors, if the processor supports them. This encodes most
/// symbols, but not the first ones of every stream.
fn encode_vectors(streams: &mut [Encoding]) {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::avx2::call;
        use crate::entropy::rans::avx2::encode;

        match streams {
            [one] => call!(encode::<1>, [one]; else ()),
            [one, two] => call!(encode::<2>, [one, two]; else ()),
            _ => {}
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = streams;
}

/// A stream that is being encoded.
pub(in crate::entropy::rans) struct Encoding<'a> {
    pub states: [u32; STATES],
    pub emitted: Emitted,
    /// The remaining symbols, in groups of one per state.
    pub groups: core::slice::Iter<'a, [u8; STATES]>,
    codes: [Divided; 256],
    #[cfg(target_arch = "x86_64")]
    pub packed: [PackedCode; 256],
}

impl<'a> Encoding<'a> {
    /// Starts a stream by encoding the symbols after the last whole group.
    fn new<E: Engine>(engine: &E, Plain { symbols, codes }: Plain<'a>) -> Self {
        let codes = codes.map(|code| Divided::new(code, BITS));
        let (groups, rest) = symbols.as_chunks();
        let mut states = [LOWER; STATES];
        let mut emitted = Emitted::in_buffer(engine.recycled(), symbols.len());
        let rest = rest.iter().map(|symbol| &codes[usize::from(*symbol)]);
        emitted.push(states.iter_mut().zip(rest).rev());
        Self {
            states,
            emitted,
            groups: groups.iter(),
            #[cfg(target_arch = "x86_64")]
            packed: codes.map(PackedCode::new),
            codes,
        }
    }

    /// Encodes the remaining groups and returns the stream.
    fn finish<E: Engine>(mut self, engine: &E) -> Vec<u8> {
        kernel::run(Rest(&mut self));
        let stream = self.emitted.stream(&self.states);
        engine.recycle(self.emitted.into_buffer());
        stream
    }
}

/// Encodes all remaining groups of a stream.
struct Rest<'r, 'a>(&'r mut Encoding<'a>);

impl Kernel for Rest<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Encoding {
            states,
            emitted,
            groups,
            codes,
            ..
        } = self.0;
        let code = |symbol: &u8| &codes[usize::from(*symbol)];
        for group in groups.rev() {
            emitted.push(states.iter_mut().zip(group.iter().map(code)).rev());
        }
    }
}
