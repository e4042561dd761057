//! The rules a reader enforces, one variant each, with the place in
//! `docs/formats` that states it.

macro_rules! rules {
    ($( $(#[$doc:meta])* $name:ident = $code:literal, )*) => {
        /// A rule of a format. Tests and scripts match on this, never on the
        /// text of a message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule { $( $(#[$doc])* $name, )* }

        impl Rule {
            /// Every rule, in the order of this file.
            pub const ALL: &[Self] = &[ $( Self::$name, )* ];

            /// Returns the stable spelling, `format.rule`.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $( Self::$name => $code, )* }
            }
        }
    };
}

rules! {
    /// The file begins with the signature of a known format
    /// (z4ai-containers 0, z4ai-frames 2).
    Recognised = "file.recognised",
    /// Every field is inside the input (z4ai-frames 13 rule 1).
    Truncated = "bytes.truncated",

    /// A tensor has at most 255 dimensions ([`crate::limits::DIMENSIONS`]).
    TensorDimensions = "tensor.dimensions",

    /// At least eight bytes (z4ai-containers 1.2 check 1).
    SafetensorsTooSmall = "safetensors.too_small",
    /// Header of at most 100 000 000 bytes (1.2 check 2).
    SafetensorsHeaderCap = "safetensors.header_cap",
    /// Header inside the file (1.2 check 3).
    SafetensorsHeaderLength = "safetensors.header_length",
    /// Header is UTF-8 (1.2 check 4).
    SafetensorsUtf8 = "safetensors.utf8",
    /// Header is JSON of the given shape (1.2 check 5, 1.3).
    SafetensorsJson = "safetensors.json",
    /// Spans follow each other without hole or overlap (1.2 check 6).
    SafetensorsOffsets = "safetensors.offsets",
    /// Size computed from the shape fits in 64 bits (1.2 check 7).
    SafetensorsOverflow = "safetensors.overflow",
    /// Sub-byte dtypes fill whole bytes (1.2 check 8).
    SafetensorsSubByte = "safetensors.sub_byte",
    /// Span is as long as shape and dtype say (1.2 check 9).
    SafetensorsSize = "safetensors.size",
    /// The spans cover the data buffer (1.2 check 10).
    SafetensorsCoverage = "safetensors.coverage",
    /// The data buffer holds every span (1.2 check 10): a file that was cut
    /// off does not.
    SafetensorsTruncated = "safetensors.truncated",

    /// The index of the shards is JSON of the given shape (sharded 1).
    ShardIndex = "sharded.index",
    /// Shards are files next to the index (sharded 1).
    ShardFileName = "sharded.file_name",
    /// A tensor is in one file (sharded 1).
    ShardTensorTwice = "sharded.tensor_twice",
    /// Every file that the index names is next to it (sharded 2).
    ShardMissing = "sharded.missing",
    /// Files hold the tensors that the index says (sharded 2).
    ShardTensorMissing = "sharded.tensor_missing",
    /// The names in the index can be changed and changed back (sharded 3).
    ShardRenaming = "sharded.renaming",

    /// Starts with `ZSTNSKCH` (sketch 1).
    SketchMagic = "sketch.magic",
    /// Version 1 (sketch 1).
    SketchVersion = "sketch.version",
    /// The bytes after the digest have it (sketch 1).
    SketchDigest = "sketch.digest",
    /// Directory and frames are those of tensors (sketch 1).
    SketchLayout = "sketch.layout",

    /// Starts with `ZSTN` (z4ai-containers 2.1).
    ZstnMagic = "zstn.magic",
    /// Version 3 (2.1).
    ZstnVersion = "zstn.version",
    /// Header inside the file (2.7 rule 1).
    ZstnHeaderLength = "zstn.header_length",
    /// Ends with the trailer `ZSTN` (2.2, 2.7 rule 1).
    ZstnFooter = "zstn.footer",
    /// Index between frames and footer (2.7 rule 2).
    ZstnIndexPlace = "zstn.index_place",
    /// Record count fits the index (2.7 rule 3).
    ZstnIndexCount = "zstn.index_count",
    /// Every record inside the index (2.7 rule 3).
    ZstnRecord = "zstn.record",
    /// Names are UTF-8 (2.7 rule 3).
    ZstnName = "zstn.name",
    /// Kind 0 or 1 (2.2).
    ZstnKind = "zstn.kind",
    /// Spans tile the data buffer (2.7 rule 4).
    ZstnTiling = "zstn.tiling",
    /// A REF names a FRAME (2.7 rule 5).
    ZstnRefTarget = "zstn.ref_target",
    /// A REF is as long as its target (2.7 rule 5).
    ZstnRefLength = "zstn.ref_length",
    /// Frames are between header and index (2.7 rule 6).
    ZstnFramePlace = "zstn.frame_place",
    /// Only `Z4AI`, `ZSP1` and `ZPL1` inside a container (0).
    ZstnFrameKind = "zstn.frame_kind",
    /// A frame decodes to as many bytes as its span (2.7 rule 7, 2.4).
    ZstnDecodedLength = "zstn.decoded_length",
    /// Index and JSON header name the same spans (2.7 rule 9).
    ZstnHeaderMismatch = "zstn.header_mismatch",
    /// The integrity section is well formed and describes this index
    /// (zstn-integrity 1 to 3).
    ZstnIntegrity = "zstn.integrity",
    /// Header and index have their checksums (zstn-integrity 3).
    ZstnHeadChecksum = "zstn.head_checksum",
    /// A stored frame has its checksum (zstn-integrity 3).
    ZstnFrameChecksum = "zstn.frame_checksum",
    /// A block table is well formed and describes this frame
    /// (zstn-integrity 5).
    ZstnBlockTable = "zstn.block_table",
    /// A stored block has its checksum (zstn-integrity 5).
    ZstnBlockChecksum = "zstn.block_checksum",
    /// A decoded tensor has its digest (zstn-integrity 3).
    ZstnTensorDigest = "zstn.tensor_digest",
    /// The restored file has its length and digest (zstn-integrity 3).
    ZstnFileDigest = "zstn.file_digest",
    /// Statistics are well formed and those of the tensor (zstn-integrity 7).
    ZstnStatistics = "zstn.statistics",

    /// Starts with the magic of a frame family (z4ai-frames 2).
    FrameMagic = "frame.magic",
    /// Starts with `Z4DL` or `Z4DM` (z4ai-containers 3.1, 4.1).
    DeltaMagic = "delta.magic",
    /// Version 2 of `Z4DL`, 1 of `Z4DM` (3.1, 4.1).
    DeltaVersion = "delta.version",
    /// The reference is the one the delta was made against (3.2, 4.3).
    DeltaReference = "delta.reference",
    /// Every record inside the file (4.3).
    DeltaRecord = "delta.record",
    /// Record kind 0, 1 or 2 (4.1).
    DeltaKind = "delta.kind",
    /// The records cover the data buffer (4.3).
    DeltaCoverage = "delta.coverage",
    /// A tensor taken from the base is there, with that length and dtype (4.3).
    DeltaBaseTensor = "delta.base_tensor",
    /// The trailer is well formed (zstn-delta 2).
    DeltaSeal = "delta.seal",
    /// The restored file is the one that was packed (zstn-delta 2).
    DeltaRestored = "delta.restored",
    /// The header is the one that was packed (zstn-delta 2).
    DeltaHeader = "delta.header",
    /// Header, records and trailer agree about every tensor (zstn-delta 3, 4).
    DeltaPlaces = "delta.places",
    /// The restored tensor is the one that was packed (zstn-delta 3).
    DeltaTensor = "delta.tensor",

    /// Low-rank prediction of bfloat16 and float32 alone (zxd1 13.1).
    LowRankDtype = "low_rank.dtype",
    /// As many rows and columns as the tensor has elements, and a rank of at
    /// least 1, at most 1024 and no more than either (zxd1 13.1).
    LowRankShape = "low_rank.shape",
    /// Factors of 2 to 24 bits whose sums of products are at most 2^53
    /// (zxd1 13.1).
    LowRankBits = "low_rank.bits",
    /// Shifts for which every product is a normal double (zxd1 13.1).
    LowRankShift = "low_rank.shift",
    /// No bits set after the last factor (zxd1 13.1).
    LowRankPadding = "low_rank.padding",

    /// Version 1 (z4ai-frames 3.1).
    FrameVersion = "frame.version",
    /// Transform 0, 1 or 2 (3.1).
    FrameTransform = "frame.transform",
    /// Plane count fits the transform (3.2 to 3.4).
    FramePlaneCount = "frame.plane_count",
    /// Plane lengths fit each other (3.3, 3.4).
    FramePlaneLength = "frame.plane_length",
    /// Plane method 0 to 5 (3.1).
    FrameMethod = "frame.method",
    /// Strings are ASCII (13 rule 4).
    FrameAscii = "frame.ascii",
    /// Known float format (3.4).
    FrameFloatFormat = "frame.float_format",
    /// Bit-field values within their width (3.4).
    FrameFieldRange = "frame.field_range",
    /// Nothing after the last plane (13 rule 2).
    FrameTrailing = "frame.trailing",
    /// Element width that the family knows (9.1, 10, 11.2, 12).
    FrameWidth = "frame.width",
    /// A part is there if and only if there are elements for it (9.1, 10).
    FrameParts = "frame.parts",
    /// As many elements as the bitmap has bits set, and none in its padding
    /// (9.1).
    SparseCount = "sparse.count",
    /// The values are one turbo frame of as many bytes as the elements that
    /// are not zero take (9.1).
    SparseValues = "sparse.values",
    /// Streams as long as the whole (9.2).
    TurboLength = "turbo.length",
    /// Indices of 1, 2 or 4 bytes (10).
    PaletteIndexWidth = "palette.index_width",
    /// Every index leads to an entry of the codebook (10).
    PaletteIndex = "palette.index",
    /// Dtypes, grid, flags and table of a lattice frame exist and fit each other
    /// (zxq1 2).
    LatticeHead = "lattice.head",
    /// Groups are not larger than the matrix, which has elements (zxq1 2).
    LatticeShape = "lattice.shape",
    /// The inner frames are those of z4ai's containers, fill their places and
    /// are as long as the head says (zxq1 2.2).
    LatticeFrames = "lattice.frames",
    /// Scales are finite (zxq1 4).
    LatticeScale = "lattice.scale",
    /// Symbols stand for finite values (zxq1 3).
    LatticeSymbol = "lattice.symbol",
    /// As many elements as the groups in the bitmap have, and none after the
    /// last group (zxq1 5).
    LatticeExceptions = "lattice.exceptions",
    /// A stored plane is as long as its payload (4.1).
    StoreLength = "store.length",
    /// Block table of method 2 (4.3).
    BlocksTable = "blocks.table",

    /// Symbol count, chunk count and flags of a rANS payload
    /// (z4ai-frames 6 to 8).
    RansHead = "rans.head",
    /// Frequencies sum to 16384 (5.1).
    RansTable = "rans.table",
    /// Rows of an order-1 model (8.1).
    RansModel = "rans.model",
    /// Every context that occurs has a row (8.2).
    RansContext = "rans.context",
    /// Lengths of chunks and segments add up (6, 7, 8.2).
    RansChunks = "rans.chunks",
    /// Initial states within their range (5.4).
    RansState = "rans.state",
    /// All bytes are used and all states are back at their start (5.4).
    RansEnd = "rans.end",
    /// The stream can hold as many symbols as promised (13 rule 5).
    RansCapacity = "rans.capacity",

    /// The symbols of a table are in order and their frequencies sum to 4096
    /// (zxd1 7).
    InterleavedTable = "interleaved.table",
    /// States within their range at the start, back at their start at the end,
    /// all words used (zxd1 8).
    InterleavedStream = "interleaved.stream",
    /// A side stream is of a known kind and can hold as many bytes as promised
    /// (zxd1 9).
    InterleavedSide = "interleaved.side",

    /// Dtype, flags, number of states and lengths of a `ZXD1` frame within
    /// their ranges (zxd1 3).
    DifferenceHeader = "difference.header",
    /// The head of a `ZXD1` frame has its checksum (zxd1 3).
    DifferenceHeadChecksum = "difference.head_checksum",
    /// Every context has a table that there is and a shift of at most 24
    /// (zxd1 6).
    DifferenceContexts = "difference.contexts",
    /// The blocks fill the frame, and are no longer than their elements can be
    /// (zxd1 10).
    DifferenceBlocks = "difference.blocks",
    /// A block has its checksum (zxd1 10).
    DifferenceBlockChecksum = "difference.block_checksum",
    /// The raw bits of a block are used up (zxd1 10).
    DifferenceRawBits = "difference.raw_bits",

    /// One well-formed RFC 8878 frame without dictionary (1).
    ZstdFrame = "zstd.frame",
    /// Window of at most 2^27 bytes (1).
    ZstdWindow = "zstd.window",
    /// Declared content size is the expected one (1).
    ZstdContentSize = "zstd.content_size",
    /// The frame can hold as many bytes as promised (13 rule 5).
    ZstdCapacity = "zstd.capacity",
    /// The frame fills its payload (1).
    ZstdTrailing = "zstd.trailing",
    /// The blocks decode (RFC 8878).
    ZstdData = "zstd.data",
    /// An auxiliary frame declares its content size (1).
    ZstdSized = "zstd.sized",
    /// One RFC 7932 stream that fills its payload (1).
    BrotliData = "brotli.data",
    /// A brotli stream decodes to exactly the length promised (11.3).
    BrotliLength = "brotli.length",

    /// Starts with the magic of a version that exists (ztensor 1).
    ZTensorMagic = "ztensor.magic",
    /// The end of the file says where the metadata are (ztensor 2, 7.1, 7.2,
    /// 8.1).
    ZTensorFooter = "ztensor.footer",
    /// The manifest has the hash that the footer names (ztensor 8.1).
    ZTensorManifestHash = "ztensor.manifest_hash",
    /// The metadata are one CBOR item, well formed (ztensor 3.1, 6.2 step 4,
    /// 8.2).
    ZTensorCbor = "ztensor.cbor",
    /// Required keys are there, with values of their types (ztensor 6.2 step
    /// 5, 7, 8.2).
    ZTensorField = "ztensor.field",
    /// Names are distinct and of allowed length (ztensor 6.3, 8.2).
    ZTensorName = "ztensor.name",
    /// Known dtype and logical type (ztensor 4, 7.2, 8.2).
    ZTensorDtype = "ztensor.dtype",
    /// Known layout with the parts it must have (ztensor 6.2 step 5, 8.3).
    ZTensorLayout = "ztensor.layout",
    /// Known encoding and byte order (ztensor 5, 6.2 step 5).
    ZTensorEncoding = "ztensor.encoding",
    /// Blobs are aligned and are before the metadata (ztensor 6.2 step 6, 8.2).
    ZTensorPlace = "ztensor.place",
    /// Size computed from the shape fits in 64 bits (ztensor 4).
    ZTensorOverflow = "ztensor.overflow",
    /// Parts decode to as many bytes as shape and dtype say (ztensor 6.2 step
    /// 7, 7.2, 8.3).
    ZTensorLength = "ztensor.length",
    /// The text of a checksum has a value (ztensor 5, 8.2).
    ZTensorChecksumText = "ztensor.checksum_text",
    /// Bytes have the checksum that the file names (ztensor 5, 7.2, 8.2).
    ZTensorChecksum = "ztensor.checksum",
    /// Indices of sparse layouts are in order and in range, and no element is
    /// stored twice (ztensor 6.1, 8.3).
    ZTensorSparse = "ztensor.sparse",
    /// The table of a stream of zstd frames agrees with them (ztensor 8.3).
    ZTensorSeekTable = "ztensor.seek_table",
    /// Truth values of version 2 are 0 or 1 (ztensor 8.2).
    ZTensorBool = "ztensor.bool",
    /// Starts with `GAUSS001` to `GAUSS004` (gauss 2.1, 11 check 2).
    GaussMagic = "gauss.magic",
    /// No more tensors than the file can hold (11 check 1).
    GaussCount = "gauss.count",
    /// Names are UTF-8 and occur once (11 check 2).
    GaussName = "gauss.name",
    /// Dtype 0 to 7 (11 check 2).
    GaussDtype = "gauss.dtype",
    /// The number of elements fits in 64 bits (11 check 4).
    GaussShape = "gauss.shape",
    /// The shards cover the rows of the tensor (11 checks 2 and 4).
    GaussShards = "gauss.shards",
    /// At least two components, of finite weight, mean and width (11 check 3).
    GaussMixture = "gauss.mixture",
    /// Residual scale of at least 1 (11 check 3).
    GaussScale = "gauss.scale",
    /// A raw tensor is as long as its shape and dtype say (11 check 5).
    GaussRawLength = "gauss.raw_length",
    /// The tensors are inside the file (11 check 1).
    GaussPlace = "gauss.place",
    /// The last word of a stream is not zero (11 check 6).
    GaussStream = "gauss.stream",
    /// The coder is empty after the last symbol (11 check 6).
    GaussEnd = "gauss.end",
    /// The entries of `config.json` have the types they should
    /// (compressed-tensors 5).
    CompressedTensorsConfig = "compressed_tensors.config",
    /// The configuration says in which format a weight is stored (5.3).
    CompressedTensorsFormat = "compressed_tensors.format",
    /// The arguments of a quantised weight are there and make sense (5.2,
    /// 5.3).
    CompressedTensorsScheme = "compressed_tensors.scheme",
    /// Every tensor has one name and one way it is stored (2).
    CompressedTensorsName = "compressed_tensors.name",
    /// All parts of a weight are there (2, 6 to 9).
    CompressedTensorsParts = "compressed_tensors.parts",
    /// Parts have the dtypes of their format (3 to 9).
    CompressedTensorsDtype = "compressed_tensors.dtype",
    /// The shapes of all parts fit that of the weight (3 to 9).
    CompressedTensorsShape = "compressed_tensors.shape",
    /// As many values as bits set in the mask, none past the last column, two
    /// in every group of a 2:4 weight (3, 4).
    CompressedTensorsMask = "compressed_tensors.mask",
    /// Rows begin where their offsets say (3).
    CompressedTensorsRowOffsets = "compressed_tensors.row_offsets",
    /// Every column belongs to a group that there is (7.4).
    CompressedTensorsGroupIndex = "compressed_tensors.group_index",
    /// Two positions, the lower one first, in every group of four (9).
    CompressedTensorsPositions = "compressed_tensors.positions",
}
