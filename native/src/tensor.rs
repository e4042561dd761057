//! Tensors in memory, and their elements as slices of Rust types.

use half::{bf16, f16};
use zerocopy::{ConvertError, Immutable, KnownLayout, TryFromBytes};
use zstn_core::dtype::Dtype;

/// A tensor in memory, or some of its rows.
///
/// [`Tensor::as_slice`] borrows the elements, and [`Tensor::to_vec`] copies them.
/// [`Element`] lists the Rust types and the dtypes that they read.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("model.safetensors");
/// # let header = br#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write(&path, [&len[..], header, &[0, 0, 128, 63, 0, 0, 0, 64]].concat())?;
/// let bias = zstn::Reader::open(&path)?.read("bias")?;
/// assert_eq!(bias.shape, [2]);
/// # #[cfg(target_endian = "little")]
/// assert_eq!(bias.as_slice::<f32>()?, [1.0, 2.0]);
/// assert_eq!(bias.to_vec::<f32>()?, [1.0, 2.0]);
///
/// let error = bias.to_vec::<f64>().unwrap_err();
/// assert_eq!(error.to_string(), "`bias` has the dtype F32, which cannot be read as f64");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The name under which the model lists the tensor.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// The elements, little-endian and row-major. Elements of less than a byte (F4,
    /// F6) are packed as in the safetensors file.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Returns a tensor with these little-endian, row-major elements.
    ///
    /// # Errors
    /// [`CastError::Length`] if `bytes` has another length than the shape requires.
    ///
    /// ```
    /// use zstn::{Dtype, Tensor};
    ///
    /// let tensor = Tensor::new("x", Dtype::I16, vec![1, 2], vec![1, 0, 255, 255])?;
    /// assert_eq!(tensor.to_vec::<i16>()?, [1, -1]);
    /// # Ok::<(), zstn::CastError>(())
    /// ```
    pub fn new(
        name: impl Into<String>,
        dtype: Dtype,
        shape: Vec<u64>,
        bytes: Vec<u8>,
    ) -> Result<Self, CastError> {
        let tensor = Self {
            name: name.into(),
            dtype,
            shape,
            bytes,
        };
        tensor.check_len()?;
        Ok(tensor)
    }

    /// Borrows the elements as a slice of `T`.
    ///
    /// # Errors
    /// - [`CastError::Dtype`] if `T` does not read the dtype of the tensor.
    /// - [`CastError::Misaligned`] if [`bytes`](Self::bytes) does not begin at a
    ///   multiple of the alignment of `T`. A `Vec<u8>` guarantees no alignment. The
    ///   usual allocators place it at a multiple of 8 or 16, so the error is rare, but
    ///   a portable program handles it.
    /// - [`CastError::ByteOrder`] on a big-endian machine, for elements of several
    ///   bytes.
    /// - [`CastError::Length`] if `bytes` or `shape` was changed, so that they do not
    ///   match.
    /// - [`CastError::Bool`] for a `bool` whose byte is neither 0 nor 1.
    ///
    /// [`Tensor::to_vec`] returns the same elements and never fails with `Misaligned` or
    /// `ByteOrder`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], CastError> {
        self.check::<T>()?;
        self.cast(&self.bytes)
    }

    /// Returns a copy of the elements. It works for any alignment of the bytes and for
    /// both byte orders of the machine.
    ///
    /// # Errors
    /// [`CastError::Dtype`], [`CastError::Length`] and [`CastError::Bool`], as for
    /// [`Tensor::as_slice`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, CastError> {
        match self.as_slice() {
            Ok(elements) => Ok(elements.to_vec()),
            Err(CastError::Misaligned { .. } | CastError::ByteOrder { .. }) => {
                self.copy(&self.bytes)
            }
            Err(error) => Err(error),
        }
    }

    /// Casts bytes to elements without copying them.
    fn cast<'a, T: Element>(&self, bytes: &'a [u8]) -> Result<&'a [T], CastError> {
        if cfg!(target_endian = "big") && size_of::<T>() > 1 {
            return Err(CastError::ByteOrder {
                name: self.name.clone(),
            });
        }
        // An empty vector may have any address, aligned or not.
        if bytes.is_empty() {
            return Ok(&[]);
        }
        <[T]>::try_ref_from_bytes(bytes).map_err(|error| match error {
            ConvertError::Alignment(_) => CastError::Misaligned {
                name: self.name.clone(),
                element: T::NAME,
            },
            ConvertError::Size(_) => self.wrong_len(),
            ConvertError::Validity(_) => self.invalid::<T>(),
        })
    }

    /// Copies elements one by one, from any address and into any byte order.
    fn copy<T: Element>(&self, bytes: &[u8]) -> Result<Vec<T>, CastError> {
        let elements = bytes.chunks_exact(size_of::<T>());
        let read = |bytes| Some(T::try_read_from_bytes(bytes).ok()?.to_native());
        let elements: Option<_> = elements.map(read).collect();
        elements.ok_or_else(|| self.invalid::<T>())
    }

    /// Borrows the tensor as an array of its shape.
    ///
    /// # Errors
    /// The errors of [`Tensor::as_slice`]. A shape that `ndarray` cannot represent is a
    /// [`CastError::Length`]: one whose dimensions other than 0 have a product above
    /// [`isize::MAX`].
    #[cfg(feature = "ndarray")]
    pub fn view_ndarray<T: Element>(&self) -> Result<ndarray::ArrayViewD<'_, T>, CastError> {
        let elements = self.as_slice()?;
        ndarray::ArrayView::from_shape(self.dimensions()?, elements).map_err(|_| self.wrong_len())
    }

    /// Returns a copy of the tensor as an array of its shape.
    ///
    /// # Errors
    /// The errors of [`Tensor::to_vec`], and [`CastError::Length`] as for
    /// [`Tensor::view_ndarray`].
    ///
    /// ```
    /// use zstn::{Dtype, Tensor};
    ///
    /// let tensor = Tensor::new("x", Dtype::U8, vec![2, 2], vec![1, 2, 3, 4])?;
    /// let array = tensor.to_ndarray::<u8>()?;
    /// assert_eq!(array[[1, 0]], 3);
    /// # Ok::<(), zstn::CastError>(())
    /// ```
    #[cfg(feature = "ndarray")]
    pub fn to_ndarray<T: Element>(&self) -> Result<ndarray::ArrayD<T>, CastError> {
        let elements = self.to_vec()?;
        ndarray::Array::from_shape_vec(self.dimensions()?, elements).map_err(|_| self.wrong_len())
    }

    #[cfg(feature = "ndarray")]
    fn dimensions(&self) -> Result<Vec<usize>, CastError> {
        let dimensions = self.shape.iter().map(|length| usize::try_from(*length));
        let dimensions: Result<_, _> = dimensions.collect();
        dimensions.map_err(|_| self.wrong_len())
    }

    /// Refuses a `T` that does not read the dtype, and bytes that do not match the
    /// shape.
    fn check<T: Element>(&self) -> Result<(), CastError> {
        if !T::DTYPES.contains(&self.dtype) {
            return Err(CastError::Dtype {
                name: self.name.clone(),
                dtype: self.dtype,
                element: T::NAME,
            });
        }
        self.check_len()
    }

    fn check_len(&self) -> Result<(), CastError> {
        let elements = zstn_core::tensor::element_count(&self.shape);
        let bits = elements.and_then(|count| count.checked_mul(self.dtype.bits()));
        match bits {
            Some(bits) if bits.div_ceil(8) == self.bytes.len() as u64 => Ok(()),
            _ => Err(self.wrong_len()),
        }
    }

    fn wrong_len(&self) -> CastError {
        CastError::Length {
            name: self.name.clone(),
            dtype: self.dtype,
            shape: self.shape.clone(),
            len_bytes: self.bytes.len(),
        }
    }

    /// Returns the error for the first element whose bytes are not a value of `T`.
    fn invalid<T: Element>(&self) -> CastError {
        let elements = self.bytes.chunks_exact(size_of::<T>());
        let mut bytes = elements.map(|bytes| T::try_read_from_bytes(bytes).is_ok());
        let index = bytes.position(|is_valid| !is_valid).unwrap_or_default();
        CastError::Bool {
            name: self.name.clone(),
            index,
            byte: self.bytes.get(index).copied().unwrap_or_default(),
        }
    }
}

/// A Rust type into which the elements of a tensor can be read.
///
/// | type | dtypes |
/// |---|---|
/// | `f32`, `f64` | F32, F64 |
/// | [`half::f16`], [`half::bf16`] | F16, BF16 |
/// | `i8` to `i64`, `u16` to `u64` | the integer of this size |
/// | `bool` | BOOL |
/// | `u8` | every dtype of one byte: U8, and the codes of BOOL, F8_E4M3, F8_E5M2, F8_E8M0, F8_E4M3FNUZ and F8_E5M2FNUZ |
/// | `[f32; 2]` | C64: the real and the imaginary part |
///
/// Nothing is converted: BF16 is not read as `f32`. Rust has no types for floats of
/// 8 bits; a crate for them can convert the codes that `u8` reads. F4 and F6 have
/// several elements in a byte, so no type reads them; [`Tensor::bytes`] contains them
/// packed.
pub trait Element: sealed::Element {
    /// The dtypes that this type reads.
    const DTYPES: &'static [Dtype];
}

mod sealed {
    use super::{Immutable, KnownLayout, TryFromBytes};

    pub trait Element:
        Copy + TryFromBytes + KnownLayout + Immutable + Send + Sync + 'static
    {
        /// The name of the type in messages.
        const NAME: &'static str;

        /// Converts an element whose bytes were copied from little-endian memory.
        #[must_use]
        fn to_native(self) -> Self;
    }
}

/// Implements [`Element`]; the closure converts an element from little-endian memory.
macro_rules! elements {
    ($($type:ty, $name:literal: $($dtype:ident)+, $to_native:expr;)*) => {$(
        impl Element for $type {
            const DTYPES: &'static [Dtype] = &[$(Dtype::$dtype),+];
        }

        impl sealed::Element for $type {
            const NAME: &'static str = $name;

            fn to_native(self) -> Self {
                let to_native: fn(Self) -> Self = $to_native;
                to_native(self)
            }
        }
    )*};
}

elements! {
    bool, "bool": Bool, |x| x;
    u8, "u8": U8 Bool F8E4M3 F8E5M2 F8E8M0 F8E4M3Fnuz F8E5M2Fnuz, |x| x;
    i8, "i8": I8, |x| x;
    u16, "u16": U16, Self::from_le;
    i16, "i16": I16, Self::from_le;
    u32, "u32": U32, Self::from_le;
    i32, "i32": I32, Self::from_le;
    u64, "u64": U64, Self::from_le;
    i64, "i64": I64, Self::from_le;
    f16, "f16": F16, |x| Self::from_bits(u16::from_le(x.to_bits()));
    bf16, "bf16": Bf16, |x| Self::from_bits(u16::from_le(x.to_bits()));
    f32, "f32": F32, |x| Self::from_bits(u32::from_le(x.to_bits()));
    f64, "f64": F64, |x| Self::from_bits(u64::from_le(x.to_bits()));
    [f32; 2], "[f32; 2]": C64, |x| x.map(<f32 as sealed::Element>::to_native);
}

/// The reason why the bytes of a tensor cannot be read as elements of a Rust type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CastError {
    /// The type does not read this dtype ([`Element::DTYPES`]).
    #[error("`{name}` has the dtype {dtype}, which cannot be read as {element}")]
    Dtype {
        /// The name of the tensor.
        name: String,
        /// The dtype of the tensor.
        dtype: Dtype,
        /// The requested type.
        element: &'static str,
    },
    /// The bytes begin at an address that is not a multiple of the type's alignment.
    #[error("the bytes of `{name}` are not aligned for {element}; copy them with `to_vec`")]
    Misaligned {
        /// The name of the tensor.
        name: String,
        /// The requested type.
        element: &'static str,
    },
    /// The machine is big-endian, and the bytes are little-endian.
    #[error("`{name}` is little-endian and this machine is not; copy it with `to_vec`")]
    ByteOrder {
        /// The name of the tensor.
        name: String,
    },
    /// The number of bytes does not match dtype and shape, or the shape is too large.
    #[error("`{name}` has {len_bytes} bytes, which do not make the shape {shape:?} of {dtype}")]
    Length {
        /// The name of the tensor.
        name: String,
        /// The dtype of the tensor.
        dtype: Dtype,
        /// The shape of the tensor.
        shape: Vec<u64>,
        /// The number of bytes.
        len_bytes: usize,
    },
    /// A truth value is stored as another byte than 0 or 1.
    #[error("element {index} of `{name}` is the byte {byte}, but a bool is 0 or 1")]
    Bool {
        /// The name of the tensor.
        name: String,
        /// The position of the element.
        index: usize,
        /// The stored byte.
        byte: u8,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(dtype: Dtype, shape: &[u64], bytes: &[u8]) -> Tensor {
        Tensor::new("x", dtype, shape.to_vec(), bytes.to_vec()).expect("the length of the shape")
    }

    #[test]
    fn every_dtype_of_whole_bytes_is_read_by_a_type() {
        fn dtypes<T: Element>() -> Vec<Dtype> {
            let one = |dtype: &Dtype| {
                assert_eq!(dtype.len_bytes(), Some(size_of::<T>()));
                let bytes = vec![0; size_of::<T>()];
                let tensor = tensor(*dtype, &[1], &bytes);
                assert_eq!(tensor.to_vec::<T>().expect("read").len(), 1);
            };
            T::DTYPES.iter().for_each(one);
            T::DTYPES.to_vec()
        }
        let read = [
            dtypes::<bool>(),
            dtypes::<u8>(),
            dtypes::<i8>(),
            dtypes::<u16>(),
            dtypes::<i16>(),
            dtypes::<u32>(),
            dtypes::<i32>(),
            dtypes::<u64>(),
            dtypes::<i64>(),
            dtypes::<f16>(),
            dtypes::<bf16>(),
            dtypes::<f32>(),
            dtypes::<f64>(),
            dtypes::<[f32; 2]>(),
        ]
        .concat();
        for dtype in Dtype::ALL {
            assert_eq!(read.contains(&dtype), dtype.bits() >= 8, "{dtype}");
        }
    }

    #[test]
    fn elements_are_little_endian() {
        let bytes = [0, 0x3c, 0, 0xc0];
        let halves = [f16::from_f32(1.0), f16::from_f32(-2.0)];
        assert_eq!(
            tensor(Dtype::F16, &[2], &bytes).to_vec(),
            Ok(halves.to_vec())
        );
        let words = tensor(Dtype::U16, &[2], &bytes);
        assert_eq!(words.to_vec::<u16>(), Ok(vec![0x3c00, 0xc000]));
        let complex = [1.5_f32, -0.25].map(f32::to_le_bytes).concat();
        let complex = tensor(Dtype::C64, &[1], &complex);
        assert_eq!(complex.to_vec::<[f32; 2]>(), Ok(vec![[1.5, -0.25]]));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn misaligned_bytes_are_refused_or_copied() {
        let values = [1.0_f64, -2.5, 1e300];
        let bytes = values.map(f64::to_le_bytes).concat();
        let tensor = tensor(Dtype::F64, &[3], &bytes);
        let mut aligned = 0;
        for offset in 0..align_of::<f64>() {
            let shifted = [&vec![0; offset][..], &bytes].concat();
            let bytes = &shifted[offset..];
            assert_eq!(tensor.copy::<f64>(bytes), Ok(values.to_vec()));
            match tensor.cast::<f64>(bytes) {
                Ok(elements) => {
                    assert_eq!(elements, values);
                    aligned += 1;
                }
                Err(CastError::Misaligned { name, element }) => {
                    assert_eq!((&*name, element), ("x", "f64"));
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(aligned < align_of::<f64>(), "no offset was misaligned");
    }

    #[test]
    fn other_types_lengths_and_truth_values_are_refused() {
        let floats = tensor(Dtype::Bf16, &[2], &[0; 4]);
        let refused = floats.as_slice::<f16>().expect_err("another dtype");
        assert_eq!(
            refused.to_string(),
            "`x` has the dtype BF16, which cannot be read as f16"
        );
        let packed = tensor(Dtype::F4, &[3, 2], &[0; 3]);
        assert!(matches!(
            packed.to_vec::<u8>(),
            Err(CastError::Dtype { .. })
        ));

        let short = Tensor::new("x", Dtype::F32, vec![2], vec![0; 7]);
        assert!(matches!(short, Err(CastError::Length { .. })));
        let endless = Tensor::new("x", Dtype::F32, vec![u64::MAX, 2], Vec::new());
        assert!(matches!(endless, Err(CastError::Length { .. })));
        let mut cut = tensor(Dtype::U16, &[2], &[0; 4]);
        cut.bytes.truncate(2);
        assert!(matches!(
            cut.as_slice::<u16>(),
            Err(CastError::Length { .. })
        ));

        let truths = tensor(Dtype::Bool, &[3], &[1, 0, 2]);
        assert_eq!(truths.to_vec::<u8>(), Ok(vec![1, 0, 2]));
        let expected = CastError::Bool {
            name: "x".into(),
            index: 2,
            byte: 2,
        };
        assert_eq!(truths.to_vec::<bool>(), Err(expected));
        assert_eq!(
            tensor(Dtype::Bool, &[2], &[1, 0]).as_slice(),
            Ok(&[true, false][..])
        );
    }

    #[test]
    fn scalars_and_empty_tensors_have_elements_too() {
        assert_eq!(
            tensor(Dtype::I32, &[], &[255; 4]).to_vec::<i32>(),
            Ok(vec![-1])
        );
        let empty = tensor(Dtype::I64, &[0, u64::MAX], &[]);
        assert_eq!(empty.as_slice::<i64>(), Ok(&[][..]));
        assert_eq!(empty.to_vec::<i64>(), Ok(vec![]));
    }

    #[cfg(feature = "ndarray")]
    #[test]
    fn arrays_have_the_shape_of_the_tensor() {
        let bytes: Vec<u8> = (1..=6_u16).flat_map(u16::to_le_bytes).collect();
        let tensor = tensor(Dtype::U16, &[2, 3], &bytes);
        let array = tensor.to_ndarray::<u16>().expect("an array");
        assert_eq!(array.shape(), [2, 3]);
        assert_eq!(array[[1, 0]], 4);
        assert_eq!(tensor.view_ndarray::<u16>().expect("aligned"), array);
        let scalar = Tensor::new("x", Dtype::I8, Vec::new(), vec![7]).expect("a scalar");
        assert_eq!(scalar.to_ndarray::<i8>().expect("an array").ndim(), 0);
        let wide = Tensor::new("x", Dtype::I8, vec![0, u64::MAX], Vec::new()).expect("empty");
        assert!(matches!(
            wide.to_ndarray::<i8>(),
            Err(CastError::Length { .. })
        ));
    }
}
