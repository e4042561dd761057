//! Zip archives and pickles, written as PyTorch writes them.

/// A zip archive that is being written.
#[derive(Debug)]
pub struct Archive {
    file: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
    alignment: usize,
}

impl Default for Archive {
    fn default() -> Self {
        Self::aligning(64)
    }
}

impl Archive {
    /// Begins an archive whose aligned members begin at multiples of `alignment` bytes.
    #[must_use]
    pub fn aligning(alignment: usize) -> Self {
        Self {
            file: Vec::new(),
            directory: Vec::new(),
            count: 0,
            alignment,
        }
    }

    /// Adds a member that begins after its header.
    #[must_use]
    pub fn member(self, name: &str, data: &[u8]) -> Self {
        self.add(name, data, 0, &[])
    }

    /// Adds a member as PyTorch does: its data begin at a multiple of the alignment, and are
    /// followed by their lengths and checksum.
    #[must_use]
    pub fn aligned(self, name: &str, data: &[u8]) -> Self {
        let start = self.file.len() + 30 + name.len() + 4;
        let padding = start.next_multiple_of(self.alignment) - start;
        let extra = [b"FB", &short(padding)[..], &vec![b'Z'; padding]].concat();
        self.described(name, data, &extra)
    }

    /// Adds a member that has the length of an aligned one and begins after its header: the
    /// bytes of the padding are after the data.
    #[must_use]
    pub fn shifted(self, name: &str, data: &[u8]) -> Self {
        let start = self.file.len() + 30 + name.len();
        let padding = (start + 4).next_multiple_of(self.alignment) - start;
        self.described(name, data, &[]).gap(padding)
    }

    /// Adds a member that is followed by its lengths and checksum.
    fn described(self, name: &str, data: &[u8], extra: &[u8]) -> Self {
        let mut archive = self.add(name, data, 8, extra);
        let lens = [
            crc32(data).to_le_bytes(),
            long(data.len()),
            long(data.len()),
        ];
        archive
            .file
            .extend([*b"PK\x07\x08"].iter().chain(&lens).flatten());
        archive
    }

    /// Adds a deflated member, which consists of stored blocks.
    #[must_use]
    pub fn deflated(mut self, name: &str, data: &[u8]) -> Self {
        let count = data.len().div_ceil(0xffff).max(1);
        let blocks = (0..count).map(|number| {
            let start = number * 0xffff;
            let data = &data[start..data.len().min(start + 0xffff)];
            let (is_last, len) = (u8::from(number + 1 == count), short(data.len()));
            [&[is_last][..], &len, &len.map(|byte| !byte), data].concat()
        });
        let blocks: Vec<u8> = blocks.flatten().collect();
        let (start, entry) = (self.file.len(), self.directory.len());
        self = self.add(name, &blocks, 0, &[]);
        // The method, the checksum and the length of the inflated member.
        for (bytes, at) in [(&mut self.file, start), (&mut self.directory, entry + 2)] {
            bytes[at + 8] = 8;
            bytes[at + 14..at + 18].copy_from_slice(&crc32(data).to_le_bytes());
            bytes[at + 22..at + 26].copy_from_slice(&long(data.len()));
        }
        self
    }

    /// Adds bytes that belong to no member.
    #[must_use]
    pub fn gap(mut self, len: usize) -> Self {
        self.file.resize(self.file.len() + len, 0);
        self
    }

    fn add(mut self, name: &str, data: &[u8], flags: u8, extra: &[u8]) -> Self {
        let start = self.file.len();
        let values = |is_known: bool| {
            let known = [
                crc32(data).to_le_bytes(),
                long(data.len()),
                long(data.len()),
            ];
            if is_known { known } else { [[0; 4]; 3] }.concat()
        };
        let version = [20, 0, flags, 0, 0, 0, 0, 0, 0, 0];
        for part in [
            b"PK\x03\x04",
            &version[..],
            &values(flags == 0),
            &short(name.len()),
            &short(extra.len()),
            name.as_bytes(),
            extra,
            data,
        ] {
            self.file.extend(part);
        }
        for part in [
            b"PK\x01\x02\x14\x00",
            &version[..],
            &values(true),
            &short(name.len()),
            &[0; 12],
            &long(start),
            name.as_bytes(),
        ] {
            self.directory.extend(part);
        }
        self.count += 1;
        self
    }

    /// Returns the archive with its directory.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let count = self.count.to_le_bytes();
        let end = [
            b"PK\x05\x06\0\0\0\0",
            &count[..],
            &count,
            &long(self.directory.len()),
            &long(self.file.len()),
            &[0, 0],
        ]
        .concat();
        [self.file, self.directory, end].concat()
    }
}

/// A tensor in a pickle. Lengths, offset and strides are in elements.
#[derive(Debug, Clone, Copy)]
pub struct StoredTensor<'a> {
    /// The name of the tensor.
    pub name: &'a str,
    /// The class of its storage without `Storage`, such as `Float`.
    pub class: &'a str,
    /// The key of its storage.
    pub key: &'a str,
    /// The length of its storage.
    pub storage_len: usize,
    /// The position of its first element in the storage.
    pub offset: usize,
    /// The shape, of at most three dimensions.
    pub shape: &'a [usize],
    /// The strides.
    pub strides: &'a [usize],
}

/// Returns a pickle of a dict of tensors.
#[must_use]
pub fn pickle(tensors: &[StoredTensor]) -> Vec<u8> {
    let mut pickle = b"\x80\x02}(".to_vec();
    for tensor in tensors {
        let class = format!("ctorch\n{}Storage\n", tensor.class);
        let storage = [
            &text("storage")[..],
            class.as_bytes(),
            &text(tensor.key),
            &text("cpu"),
        ]
        .concat();
        for part in [
            &text(tensor.name)[..],
            b"ctorch._utils\n_rebuild_tensor_v2\n((",
            &storage,
            &int(tensor.storage_len),
            b"tQ",
            &int(tensor.offset),
            &tuple(tensor.shape, int),
            &tuple(tensor.strides, short_int),
            b"\x89ccollections\nOrderedDict\n)RtR",
        ] {
            pickle.extend(part);
        }
    }
    pickle.extend(b"u.");
    pickle
}

/// Returns a pickle of a dict of F32 tensors, given as names, keys of storages and
/// lengths.
#[must_use]
pub fn state_dict(tensors: &[(String, String, usize)]) -> Vec<u8> {
    let shapes: Vec<[usize; 1]> = tensors.iter().map(|(_, _, len)| [*len]).collect();
    let tensors = tensors.iter().zip(&shapes);
    let tensors = tensors.map(|((name, key, len), shape)| StoredTensor {
        name,
        class: "Float",
        key,
        storage_len: *len,
        offset: 0,
        shape,
        strides: &[1],
    });
    pickle(&tensors.collect::<Vec<_>>())
}

/// Returns the opcodes of a number.
fn int(number: usize) -> Vec<u8> {
    [b"J", &long(number)[..]].concat()
}

/// Returns the opcodes of a number, shorter if it is below 256.
fn short_int(number: usize) -> Vec<u8> {
    match u8::try_from(number) {
        Ok(byte) => vec![b'K', byte],
        Err(_) => int(number),
    }
}

/// Returns the opcodes of a tuple of numbers.
fn tuple(numbers: &[usize], number: fn(usize) -> Vec<u8>) -> Vec<u8> {
    let end = [b')', 0x85, 0x86, 0x87][numbers.len()];
    let mut tuple: Vec<u8> = numbers.iter().flat_map(|&size| number(size)).collect();
    tuple.push(end);
    tuple
}

/// Returns the opcode of a text.
#[must_use]
pub fn text(text: &str) -> Vec<u8> {
    [b"X", &long(text.len())[..], text.as_bytes()].concat()
}

fn short(number: usize) -> [u8; 2] {
    u16::try_from(number).expect("a short length").to_le_bytes()
}

fn long(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("a length").to_le_bytes()
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// Returns a tar archive of these files.
#[must_use]
pub fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, data) in members {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
        header[148..156].fill(b' ');
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        archive.extend(header);
        archive.extend(*data);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}
