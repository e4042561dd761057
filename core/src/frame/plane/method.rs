//! The registry of plane methods. To add one, implement its codec in
//! [`entropy`](crate::entropy) and list it at the end of this file; encoders
//! select it with a [`Codec`](crate::frame::z4ai::Codec).

use alloc::format;

use crate::engine::Engine;
use crate::entropy::blocks::Blocks;
use crate::entropy::{rans, zstd};
use crate::{Error, Result, Rule};

macro_rules! methods {
    ($( $(#[$doc:meta])* $method:ident = $id:literal, $name:literal, $payload:ty; )*) => {
        /// The coding of a plane. The discriminants are the method numbers of
        /// the `Z4AI` frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Method { $( $(#[$doc])* $method = $id, )* }

        impl Method {
            /// Every method, in the order of their numbers.
            pub const ALL: &[Self] = &[ $( Self::$method, )* ];

            /// Returns the name of the method, for messages.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Self::$method => $name, )* }
            }
        }

        /// A payload, checked as far as is possible without decoding it.
        #[derive(Debug, Clone)]
        pub(super) enum Coded<'a> { $( $method($payload), )* }

        impl<'a> Coded<'a> {
            pub fn parse(method: Method, payload: &'a [u8], len_bytes: u64) -> Result<Self> {
                match method {
                    $( Method::$method => <$payload>::parse(payload, len_bytes).map(Self::$method), )*
                }
            }

            pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
                match self { $( Self::$method(payload) => payload.decode(engine, out), )* }
            }
        }
    };
}

impl Method {
    /// Returns the method with number `id`.
    pub(crate) fn from_id(id: u8) -> Option<Self> {
        let mut methods = Self::ALL.iter().copied();
        methods.find(|method| *method as u8 == id)
    }
}

/// A payload that holds the plane uncompressed.
#[derive(Debug, Clone)]
pub(super) struct Stored<'a>(&'a [u8]);

impl<'a> Stored<'a> {
    fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        if payload.len() as u64 == len_bytes {
            return Ok(Self(payload));
        }
        let detail = format!(
            "a stored plane of {len_bytes} bytes has a payload of {}",
            payload.len()
        );
        Err(Error::malformed(Rule::StoreLength, detail).at(0))
    }

    #[allow(clippy::unnecessary_wraps)] // every payload type has this signature
    fn decode<E: Engine>(&self, _: &E, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(self.0);
        Ok(())
    }
}

/// A payload that is one zstd frame.
#[derive(Debug, Clone)]
pub(super) struct ZstdFrame<'a>(&'a [u8]);

impl<'a> ZstdFrame<'a> {
    fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        zstd::check(payload, len_bytes)?;
        Ok(Self(payload))
    }

    fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        zstd::decode(engine, self.0, out)
    }
}

methods! {
    /// Uncompressed.
    Store = 0, "store", Stored<'a>;
    /// One zstd frame.
    Zstd = 1, "zstd", ZstdFrame<'a>;
    /// Independent zstd blocks.
    Blocks = 2, "zstd blocks", Blocks<'a>;
    /// rANS of order 0 with one table.
    Rans = 3, "rANS", rans::Shared<'a>;
    /// rANS of order 0 with one table per chunk.
    RansAdaptive = 4, "rANS adaptive", rans::Adaptive<'a>;
    /// rANS of order 1.
    RansOrder1 = 5, "rANS order 1", rans::Order1<'a>;
}
