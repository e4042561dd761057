//! Reads one file through the C library in every way. All ways must give the same
//! results, whether the caller or the library fetches the bytes.

use zstn_capi::{ZSTN_ALL_ROWS, ZSTN_ERROR_NEEDS_BASE, zstn_engine, zstn_model};

use super::fetched_ranges::Plan;
use super::reader::{self, File, Reader};
use super::{Handle, Listed, Outcome, engine, fetched_ranges, index};
use crate::LIMIT_BYTES;

/// Number of tensors that are read per file.
const TENSORS: usize = 3;
/// Approximate maximum number of callback calls per pass over a file. It sets the
/// minimum number of bytes per call, so that large files do not take too many calls.
const MOST_CALLS: usize = 4096;

/// Options of a session, taken from the first bytes of an input.
pub struct Choice {
    tensor: usize,
    rows: [u64; 2],
    most: usize,
    failure: (u64, i64),
}

impl Choice {
    /// Parses the options for a file of `len` bytes.
    #[must_use]
    pub fn new(bytes: &[u8; 8], len: usize) -> Self {
        let [tensor, a, b, c, d, most, good, result] = *bytes;
        let result = match result % 5 {
            0 => 0,
            1 => -1,
            2 => i64::MIN,
            3 => i64::MAX,
            // This result exceeds the length of any request.
            _ => i64::try_from(len).map_or(i64::MAX, |len| len + 1),
        };
        Self {
            tensor: tensor.into(),
            rows: [[a, b], [c, d]].map(|row| u16::from_le_bytes(row).into()),
            most: match most {
                0 => usize::MAX,
                most => usize::from(most) * (len / MOST_CALLS + 1),
            },
            failure: (good.into(), result),
        }
    }

    /// Returns a range of rows, which may extend past the tensor, in two forms: with
    /// its end index, and with `ZSTN_ALL_ROWS` if it ends with the tensor.
    fn rows_of(&self, tensor: &Listed) -> [(u64, u64); 2] {
        let count = tensor.shape.first().copied().unwrap_or(0);
        let [begin, end] = self.rows.map(|row| row % count.saturating_add(2));
        match self.rows[1] {
            0xFFFF => [(begin, count), (begin, ZSTN_ALL_ROWS)],
            _ => [(begin, end); 2],
        }
    }
}

/// A tensor, and the result that both ways of reading returned.
struct Read {
    number: usize,
    len_bytes: u64,
    whole: Outcome<Vec<u8>>,
}

/// Reads a file with every function. If `checksums_count`, rows must equal the same
/// rows of the whole tensor.
///
/// # Panics
/// If the library breaks a guarantee.
pub fn run(file: &[u8], choice: &Choice, checksums_count: bool) {
    let engine = engine();
    let verified = verify(file, choice, &engine);
    let model = fetched_ranges::open(file, &engine);
    let good = File::new(file, choice.most, None);
    let reader = Reader::open(&good, &engine);
    match (&model, &reader) {
        (Ok(model), Ok(reader)) => {
            let read = Session {
                file,
                choice,
                engine,
                model,
                reader,
                checksums_count,
            };
            read.everything(verified);
        }
        (Err(by_ranges), Err(by_callbacks)) => assert_eq!(by_ranges, by_callbacks),
        (by_ranges, by_callbacks) => panic!(
            "opened by ranges: {:?}, by callbacks: {:?}",
            by_ranges.as_ref().err(),
            by_callbacks.as_ref().err()
        ),
    }
    drop(reader);
    good.is_released(1);
}

/// Verifies a file unless it is known to exceed the limit.
fn verify(file: &[u8], choice: &Choice, engine: &Handle<zstn_engine>) -> Option<Outcome<()>> {
    let opened = crate::catalog(file);
    let len_bytes = opened.map_or(0, |opened| {
        let tensors = opened.tensors().iter();
        let sum = tensors.fold(0, |sum: u64, tensor| sum.saturating_add(tensor.len_bytes()));
        sum.max(opened.original_len_bytes())
    });
    if len_bytes > LIMIT_BYTES {
        return None;
    }
    let failing = File::new(file, choice.most, Some(choice.failure));
    let failing = reader::verify(&failing, engine);
    let verified = reader::verify(&File::new(file, choice.most, None), engine);
    // If the failing run succeeds, it did not need the failed reads, so the other run
    // must succeed as well.
    assert!(failing.is_err() || verified.is_ok());
    Some(verified)
}

struct Session<'a> {
    file: &'a [u8],
    choice: &'a Choice,
    engine: Handle<zstn_engine>,
    model: &'a Handle<zstn_model>,
    reader: &'a Reader<'a>,
    checksums_count: bool,
}

impl Session<'_> {
    fn everything(self, verified: Option<Outcome<()>>) {
        // SAFETY: both handles are valid and outlive this call.
        let (tensors, again) = unsafe {
            (
                super::tensors(self.model.pointer),
                super::tensors(self.reader.model()),
            )
        };
        assert_eq!(tensors, again);
        let chosen = (0..tensors.len().min(TENSORS))
            .map(|number| (self.choice.tensor + number) % tensors.len());
        let chosen: Vec<usize> = chosen
            .filter(|number| tensors[*number].has_name)
            .filter(|number| tensors[*number].len_bytes <= LIMIT_BYTES)
            .collect();
        let read = chosen.iter().map(|&number| Read {
            number,
            len_bytes: tensors[number].len_bytes,
            whole: self.whole(&tensors[number]),
        });
        let read: Vec<Read> = read.collect();
        if verified == Some(Ok(())) {
            assert!(read.iter().all(|read| read.whole.is_ok()));
        }
        for read in &read {
            self.rows(&tensors[read.number], &read.whole);
        }
        let unpacked = self.unpacked();
        self.failing(&tensors, &read, unpacked.as_deref());
        // The reader keeps the engine alive after this call.
        drop(self.engine);
        let are_read = many(self.reader, &read);
        assert_eq!(are_read, read.iter().all(|read| read.whole.is_ok()));
    }

    /// Reads a whole tensor in both ways.
    fn whole(&self, tensor: &Listed) -> Outcome<Vec<u8>> {
        let rows = (0, ZSTN_ALL_ROWS);
        let planned = Plan::new(self.file, self.model, &tensor.name, rows).and_then(|plan| {
            assert_eq!(plan.len_bytes(), tensor.len_bytes);
            plan.decode(&self.engine)
        });
        let read = self.reader.read(&tensor.name, tensor.len_bytes);
        same(&planned, &read);
        if tensor.needs_base {
            assert_eq!(planned, Err(ZSTN_ERROR_NEEDS_BASE));
        }
        planned
    }

    /// Reads rows of a tensor in both ways.
    fn rows(&self, tensor: &Listed, whole: &Outcome<Vec<u8>>) {
        // The length of the rows of a tensor that needs a base is not known here.
        if tensor.needs_base {
            return;
        }
        let [rows, said] = self.choice.rows_of(tensor);
        let plan = Plan::new(self.file, self.model, &tensor.name, rows);
        let len_bytes = plan.as_ref().map_or(0, Plan::len_bytes);
        assert!(len_bytes <= tensor.len_bytes);
        let planned = plan.and_then(|plan| plan.decode(&self.engine));
        let read = self.reader.rows(&tensor.name, said, len_bytes);
        same(&planned, &read);
        let (Ok(planned), Ok(whole), true) = (planned, whole, self.checksums_count) else {
            return;
        };
        let count = u128::from(tensor.shape[0].max(1));
        let start = u128::from(rows.0) * u128::from(tensor.len_bytes) / count;
        let start = usize::try_from(start).expect("inside of the tensor");
        assert!(planned.is_empty() || whole[start..start + planned.len()] == planned);
    }

    /// Reads the unpacked file as a whole, and a range of it.
    fn unpacked(&self) -> Option<Vec<u8>> {
        let len_bytes = self.reader.unpacked_len().ok();
        let len = index(len_bytes.filter(|len| *len <= LIMIT_BYTES)?);
        let whole = self.reader.unpacked(0, len);
        let (begin, end) = self.range(len);
        let range = self.reader.unpacked(begin as u64, end - begin);
        if let (Ok(whole), Ok(range)) = (&whole, &range) {
            assert!(whole[begin..end] == *range);
        }
        assert!(whole.is_err() || range.is_ok());
        assert!(self.reader.unpacked(len as u64, 1).is_err());
        whole.ok()
    }

    /// Returns a range within `len` bytes.
    fn range(&self, len: usize) -> (usize, usize) {
        let [a, b] = self.choice.rows.map(|row| index(row) % (len + 1));
        (a.min(b), a.max(b))
    }

    /// Reads with callbacks that fail from some call on. Every successful result must
    /// be correct.
    fn failing(&self, tensors: &[Listed], read: &[Read], unpacked: Option<&[u8]>) {
        let file = File::new(self.file, self.choice.most, Some(self.choice.failure));
        if let Ok(reader) = Reader::open(&file, &self.engine) {
            for read in read {
                let name = &tensors[read.number].name;
                let outcome = reader.read(name, read.len_bytes);
                assert!(outcome.is_err() || outcome == read.whole);
            }
            if let Some(whole) = unpacked {
                let (begin, end) = self.range(whole.len());
                let range = reader.unpacked(begin as u64, end - begin);
                assert!(range.is_err() || range.as_deref() == Ok(&whole[begin..end]));
            }
            many(&reader, read);
        }
        file.is_released(1);
    }
}

/// Compares the results of both ways of reading.
fn same(planned: &Outcome<Vec<u8>>, read: &Outcome<Vec<u8>>) {
    assert_eq!(planned.as_ref().err(), read.as_ref().err());
    assert!(planned == read, "the results differ");
}

/// Reads several tensors in one call, the first of them twice. Returns whether all can
/// be read.
fn many(reader: &Reader, read: &[Read]) -> bool {
    let wanted: Vec<&Read> = read.iter().chain(read.first()).collect();
    let numbers = wanted.iter().map(|read| (read.number, read.len_bytes));
    let Ok(bytes) = reader.many(&numbers.collect::<Vec<_>>()) else {
        return false;
    };
    let expected = wanted.iter().map(|read| read.whole.as_ref());
    assert!(bytes.iter().map(Ok).eq(expected));
    true
}
