//! Writes a folder of compressed-tensors with sparse weights.

use std::ops::Range;

use zstn_core::container::foreign::compressed_tensors::{Format, SparseWriter, TensorSpec};
use zstn_core::container::safetensors::{self, HeaderTensor};

use super::conversion::Conversion;
use super::shards::{self, Naming};
use super::{Detail, Written, config};
use crate::output::{FolderPlace, OutputFolder};
use crate::source::{CONFIG, Local};
use crate::{Result, Source};

const SPOOL: &str = "spool";

pub fn write(conversion: &Conversion, format: Format) -> Result<Written> {
    let refuse = conversion.refuse();
    let mut writer = SparseWriter::new(format).map_err(&refuse)?;
    conversion.progress.begin(conversion.tensor_bytes());
    let place = FolderPlace::Path(conversion.output.into());
    let http = &conversion.options.http;
    let folder = OutputFolder::create(&place, http)?;
    // The header precedes the data and states how each tensor is stored, which is only
    // known once the tensor has been read.
    let mut spool = folder.file(SPOOL.as_ref())?;
    let mut stored: Vec<HeaderTensor> = Vec::new();
    let mut sparse = 0;
    let numbers: Vec<usize> = (0..conversion.tensors().len()).collect();
    conversion.each(
        &numbers,
        |_, tensor| Ok(tensor),
        |_, tensor| {
            let dense = TensorSpec {
                name: tensor.name,
                dtype: tensor.dtype,
                shape: tensor.shape,
            };
            let parts = writer.write(&dense, &tensor.bytes).map_err(&refuse)?;
            sparse += usize::from(parts.is_some());
            for (part, bytes) in parts.unwrap_or_else(|| vec![(dense, tensor.bytes)]) {
                let start = stored.last().map_or(0, |tensor| tensor.span.end);
                spool.write(&bytes)?;
                stored.push(HeaderTensor {
                    name: part.name,
                    dtype: part.dtype,
                    shape: part.shape,
                    span: start..start + bytes.len() as u64,
                });
            }
            Ok(())
        },
    )?;
    let files = Files {
        conversion,
        folder: &folder,
        data: spool.written()?,
        stored: &stored,
    };
    let mut len_bytes = files.write()?;
    drop(files);
    drop(spool);
    let config = config::text(conversion.input, &writer.quantization_config())?;
    folder.write(CONFIG, &config[..], &conversion.mode())?;
    len_bytes += config.len() as u64;
    conversion.check_unchanged()?;
    conversion.progress.publishing()?;
    folder.finish()?;
    Ok(Written {
        detail: Detail::Sparse(sparse),
        ..Written::file(conversion, len_bytes)
    })
}

/// The stored tensors that will be written to one file or several.
struct Files<'a> {
    conversion: &'a Conversion<'a>,
    folder: &'a OutputFolder,
    data: Local,
    stored: &'a [HeaderTensor],
}

impl Files<'_> {
    fn write(&self) -> Result<u64> {
        let lens: Vec<u64> = self
            .stored
            .iter()
            .map(|tensor| tensor.span.end - tensor.span.start)
            .collect();
        let cuts = shards::cut(&lens, self.conversion.options.shard_bytes);
        let naming = Naming::of_model();
        if cuts.len() < 2 {
            return self.file(&naming.single(), 0..self.stored.len());
        }
        let mut len_bytes = 0;
        let mut map = Vec::new();
        for (number, shard) in cuts.iter().enumerate() {
            let name = naming.shard(number, cuts.len());
            len_bytes += self.file(&name, shard.clone())?;
            map.push((shard.clone(), name));
        }
        let files = map.iter().flat_map(|(shard, file)| {
            let own = &self.stored[shard.clone()];
            own.iter()
                .map(|tensor| (tensor.name.as_str(), file.as_str()))
        });
        let text = shards::index(lens.iter().sum(), files);
        let mode = self.conversion.mode();
        self.folder.write(naming.index(), &text[..], &mode)?;
        Ok(len_bytes + text.len() as u64)
    }

    fn file(&self, name: &str, tensors: Range<usize>) -> Result<u64> {
        let own = &self.stored[tensors];
        let start = own.first().map_or(0, |tensor| tensor.span.start);
        let end = own.last().map_or(0, |tensor| tensor.span.end);
        let moved: Vec<HeaderTensor> = own
            .iter()
            .map(|tensor| HeaderTensor {
                span: tensor.span.start - start..tensor.span.end - start,
                ..tensor.clone()
            })
            .collect();
        let head = safetensors::head(self.conversion.reader.metadata(), &moved);
        let head = head.map_err(self.conversion.refuse())?;
        let mut output = self.folder.file(name.as_ref())?;
        let inputs: Vec<&dyn Source> = self.conversion.reader.all_sources().collect();
        output.check_inputs(&inputs)?;
        output.write(&head)?;
        output.write_part(&self.data, start..end)?;
        output.finish()?;
        Ok(head.len() as u64 + (end - start))
    }
}
