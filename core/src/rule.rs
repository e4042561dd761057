//! The rules that readers enforce: one variant of [`Rule`] for each, with the
//! section of `docs/formats` that states it.

macro_rules! rules {
    ($( $(#[$doc:meta])* $name:ident $(if $feature:tt)? = $code:literal, )*) => {
        /// A rule of a file format that malformed input breaks.
        ///
        /// Each variant is documented by the condition that valid input meets,
        /// followed by the document in `docs/formats` that states it and the
        /// section there. Programs match on the variant or on its
        /// [`code`](Rule::code), never on the text of an error message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule { $( $(#[$doc])* $name, )* }

        impl Rule {
            /// Every rule, in the order of declaration.
            pub const ALL: &[Self] = &[ $( Self::$name, )* ];

            /// Returns the stable name of the rule for programs, as
            /// `format.rule`.
            #[must_use]
            pub fn code(self) -> &'static str {
                // A build without a format cannot break its rules.
                match self {
                    $( $(#[cfg(feature = $feature)])? Self::$name => $code, )*
                    #[allow(unreachable_patterns)]
                    _ => "",
                }
            }
        }
    };
}

rules! {
    /// The file begins with the signature of a known format (z4ai-containers 0,
    /// z4ai-frames 2).
    Recognised = "file.recognised",
    /// Every field lies inside the input (z4ai-frames 13 rule 1).
    Truncated = "bytes.truncated",

    /// A tensor has at most 255 dimensions ([`crate::limits::DIMENSIONS`]).
    TensorDimensions = "tensor.dimensions",

    /// The file has at least eight bytes (z4ai-containers 1.2 check 1).
    SafetensorsTooSmall = "safetensors.too_small",
    /// The header has at most 100 000 000 bytes (z4ai-containers 1.2 check 2).
    SafetensorsHeaderCap = "safetensors.header_cap",
    /// The header lies inside the file (z4ai-containers 1.2 check 3).
    SafetensorsHeaderLength = "safetensors.header_length",
    /// The header is UTF-8 (z4ai-containers 1.2 check 4).
    SafetensorsUtf8 = "safetensors.utf8",
    /// The header is JSON of the specified structure (z4ai-containers 1.2 check
    /// 5 and 1.3).
    SafetensorsJson = "safetensors.json",
    /// The data spans of the tensors are contiguous: no gap, no overlap
    /// (z4ai-containers 1.2 check 6).
    SafetensorsOffsets = "safetensors.offsets",
    /// The size computed from a tensor's shape fits in 64 bits (z4ai-containers
    /// 1.2 check 7).
    SafetensorsOverflow = "safetensors.overflow",
    /// A tensor with elements smaller than a byte fills whole bytes
    /// (z4ai-containers 1.2 check 8).
    SafetensorsSubByte = "safetensors.sub_byte",
    /// A data span has the length that follows from shape and dtype
    /// (z4ai-containers 1.2 check 9).
    SafetensorsSize = "safetensors.size",
    /// The data spans cover the whole data buffer (z4ai-containers 1.2 check
    /// 10).
    SafetensorsCoverage = "safetensors.coverage",
    /// The data buffer contains every data span (z4ai-containers 1.2 check 10).
    /// A truncated file breaks this rule.
    SafetensorsTruncated = "safetensors.truncated",

    /// The shard index is JSON of the specified structure (sharded 1).
    ShardIndex = "sharded.index",
    /// The shard index names files of its own folder (sharded 1).
    ShardFileName = "sharded.file_name",
    /// The shard index assigns each tensor to one file (sharded 1).
    ShardTensorTwice = "sharded.tensor_twice",
    /// Every file named in the shard index exists in the index's folder
    /// (sharded 2), and every GGUF file of a model in the folder of the first
    /// (gguf 6).
    ShardMissing = "sharded.missing",
    /// Every tensor is in the file that the shard index assigns it to (sharded
    /// 2).
    ShardTensorMissing = "sharded.tensor_missing",
    /// The file names in the shard index can be changed for the packed files
    /// and changed back (sharded 3).
    ShardRenaming = "sharded.renaming",

    /// A sketch starts with `ZSTNSKCH` (sketch 1).
    SketchMagic = "sketch.magic",
    /// The version of a sketch is 1 (sketch 1).
    SketchVersion = "sketch.version",
    /// The digest in a sketch matches the bytes after it (sketch 1).
    SketchDigest = "sketch.digest",
    /// The directory and the frames of a sketch are well formed and agree
    /// (sketch 1).
    SketchLayout = "sketch.layout",

    /// A ZSTN file starts with `ZSTN` (z4ai-containers 2.1).
    ZstnMagic = "zstn.magic",
    /// The version of a ZSTN file is 3, or 4 for extension frames
    /// (z4ai-containers 2.1, extensions).
    ZstnVersion = "zstn.version",
    /// The header lies inside the file (z4ai-containers 2.7 rule 1).
    ZstnHeaderLength = "zstn.header_length",
    /// The file ends with the trailer `ZSTN` (z4ai-containers 2.2 and 2.7 rule
    /// 1).
    ZstnFooter = "zstn.footer",
    /// The index lies between the frames and the footer (z4ai-containers 2.7
    /// rule 2).
    ZstnIndexPlace = "zstn.index_place",
    /// The index has room for the number of records that it states
    /// (z4ai-containers 2.7 rule 3).
    ZstnIndexCount = "zstn.index_count",
    /// Every record lies inside the index (z4ai-containers 2.7 rule 3).
    ZstnRecord = "zstn.record",
    /// Tensor names are UTF-8 (z4ai-containers 2.7 rule 3).
    ZstnName = "zstn.name",
    /// The kind of a record is 0 (FRAME) or 1 (REF) (z4ai-containers 2.2).
    ZstnKind = "zstn.kind",
    /// The spans of the records tile the data buffer (z4ai-containers 2.7 rule
    /// 4).
    ZstnTiling = "zstn.tiling",
    /// The target of a REF record is a FRAME record (z4ai-containers 2.7 rule
    /// 5).
    ZstnRefTarget = "zstn.ref_target",
    /// A REF record has the length of its target (z4ai-containers 2.7 rule 5).
    ZstnRefLength = "zstn.ref_length",
    /// Every frame lies between the header and the index (z4ai-containers 2.7
    /// rule 6).
    ZstnFramePlace = "zstn.frame_place",
    /// The frames inside a container are `Z4AI`, `ZSP1` or `ZPL1`
    /// (z4ai-containers 0), or an extension frame if the version of the file
    /// allows one (extensions).
    ZstnFrameKind = "zstn.frame_kind",
    /// A frame decodes to the length of its span (z4ai-containers 2.4 and 2.7
    /// rule 7).
    ZstnDecodedLength = "zstn.decoded_length",
    /// The index and the JSON header list the same names and spans
    /// (z4ai-containers 2.7 rule 9).
    ZstnHeaderMismatch = "zstn.header_mismatch",
    /// The integrity section is well formed and describes the index of its file
    /// (zstn-integrity 1 to 3).
    ZstnIntegrity = "zstn.integrity",
    /// The header and the index match their checksums (zstn-integrity 3).
    ZstnHeadChecksum = "zstn.head_checksum",
    /// A stored frame matches its checksum (zstn-integrity 3).
    ZstnFrameChecksum = "zstn.frame_checksum",
    /// A block table is well formed and describes its frame (zstn-integrity 5).
    ZstnBlockTable = "zstn.block_table",
    /// A stored block matches its checksum (zstn-integrity 5).
    ZstnBlockChecksum = "zstn.block_checksum",
    /// A decoded tensor matches its digest (zstn-integrity 3).
    ZstnTensorDigest = "zstn.tensor_digest",
    /// The restored file has the recorded length and digest (zstn-integrity 3).
    ZstnFileDigest = "zstn.file_digest",
    /// The stored statistics are well formed and match the tensor
    /// (zstn-integrity 7).
    ZstnStatistics = "zstn.statistics",

    /// A frame starts with the magic of a frame family (z4ai-frames 2).
    FrameMagic = "frame.magic",
    /// A delta starts with `Z4DL` or `Z4DM` (z4ai-containers 3.1 and 4.1).
    DeltaMagic = "delta.magic",
    /// The version of `Z4DL` is 2. The version of `Z4DM` is 1, 2 for extension
    /// frames, or 3 for other bytes of the base (z4ai-containers 3.1 and 4.1,
    /// extensions 3, zstn-delta 7).
    DeltaVersion = "delta.version",
    /// The base is the one that the delta was made against (z4ai-containers 3.2
    /// and 4.3).
    DeltaReference = "delta.reference",
    /// Every record lies inside the file, and the names of the records are
    /// distinct and UTF-8 (z4ai-containers 4.3).
    DeltaRecord = "delta.record",
    /// The kind of a record is 0, 1 or 2 (z4ai-containers 4.1), 3 from version 2
    /// on (extensions 3), or 4 in version 3 (zstn-delta 7).
    DeltaKind = "delta.kind",
    /// The records cover the whole data buffer (z4ai-containers 4.3).
    DeltaCoverage = "delta.coverage",
    /// The base has every tensor and every range that the delta takes from it,
    /// with the expected length and dtype (z4ai-containers 4.3, zstn-delta 7).
    DeltaBaseTensor = "delta.base_tensor",
    /// The trailer of a delta is well formed (zstn-delta 2 and 7).
    DeltaSeal = "delta.seal",
    /// The restored file matches the digest of the packed one (zstn-delta 2).
    DeltaRestored = "delta.restored",
    /// The restored header matches the digest of the packed one (zstn-delta 2).
    DeltaHeader = "delta.header",
    /// The header, the records and the trailer agree about every tensor
    /// (zstn-delta 3 and 4).
    DeltaPlaces = "delta.places",
    /// A restored tensor matches the digest of the packed one (zstn-delta 3).
    DeltaTensor = "delta.tensor",

    /// Low-rank prediction occurs in frames of bfloat16 and float32 only (zxd1
    /// 13.1).
    LowRankDtype = "low_rank.dtype",
    /// The rows times the columns are the number of elements, and the rank is
    /// at least 1, at most 1024 and at most either of them (zxd1 13.1).
    LowRankShape = "low_rank.shape",
    /// A factor has 2 to 24 bits, and sums of products of factors are at most
    /// 2^53 (zxd1 13.1).
    LowRankBits = "low_rank.bits",
    /// The shifts make every product a normal double (zxd1 13.1).
    LowRankShift = "low_rank.shift",
    /// The padding bits after the last factor are zero (zxd1 13.1).
    LowRankPadding = "low_rank.padding",

    /// The version of a frame is the one that its family has (z4ai-frames 3.1,
    /// 9 to 11).
    FrameVersion = "frame.version",
    /// The transform of a frame exists in its family (z4ai-frames 3.1, 9.2 and
    /// 11.2).
    FrameTransform = "frame.transform",
    /// The number of planes fits the transform (z4ai-frames 3.2 to 3.4, 9.2 and
    /// 11.2).
    FramePlaneCount = "frame.plane_count",
    /// The lengths of the planes fit each other (z4ai-frames 3.3 and 3.4).
    FramePlaneLength = "frame.plane_length",
    /// The compression method of a plane or stream exists (z4ai-frames 3.1, 9.2
    /// and 11.3).
    FrameMethod = "frame.method",
    /// Strings are ASCII (z4ai-frames 13 rule 4).
    FrameAscii = "frame.ascii",
    /// The float format of a bit-field frame is known (z4ai-frames 3.4).
    FrameFloatFormat = "frame.float_format",
    /// Every bit-field value fits the width of its field (z4ai-frames 3.4).
    FrameFieldRange = "frame.field_range",
    /// The input ends with the frame (z4ai-frames 13 rule 2).
    FrameTrailing = "frame.trailing",
    /// The element width is one that the frame family supports (z4ai-frames
    /// 9.1, 10, 11.2 and 12).
    FrameWidth = "frame.width",
    /// The optional sections of a frame are present if and only if it has
    /// elements (z4ai-frames 9.1 and 10).
    FrameParts = "frame.parts",
    /// The number of elements equals the number of bits set in the bitmap,
    /// whose padding bits are zero (z4ai-frames 9.1).
    SparseCount = "sparse.count",
    /// The values are one turbo frame that decodes to the length of the nonzero
    /// elements (z4ai-frames 9.1).
    SparseValues = "sparse.values",
    /// The streams of a turbo frame add up to its length (z4ai-frames 9.2).
    TurboLength = "turbo.length",
    /// An index has 1, 2 or 4 bytes (z4ai-frames 10).
    PaletteIndexWidth = "palette.index_width",
    /// Every index refers to an entry of the codebook (z4ai-frames 10).
    PaletteIndex = "palette.index",
    /// The dtypes, grid, flags and table of a lattice frame exist and fit each
    /// other (zxq1 2).
    LatticeHead = "lattice.head",
    /// The matrix has elements, and a group is not larger than the matrix (zxq1
    /// 2).
    LatticeShape = "lattice.shape",
    /// The inner frames belong to the families that z4ai's containers hold,
    /// fill the lengths given for them, and decode to the lengths that the head
    /// implies (zxq1 2.2).
    LatticeFrames = "lattice.frames",
    /// Every scale is finite (zxq1 4).
    LatticeScale = "lattice.scale",
    /// Every symbol denotes a finite value (zxq1 3).
    LatticeSymbol = "lattice.symbol",
    /// The exceptions are exactly the elements of the groups marked in the
    /// bitmap, whose bits after the last group are zero (zxq1 5).
    LatticeExceptions = "lattice.exceptions",
    /// The sizes, numbers of states, tables and contexts in the head of a `ZXI1` frame are
    /// within their ranges (zxi1 4).
    IntervalsHead = "intervals.head",
    /// The head of a `ZXI1` frame matches its checksum (zxi1 4).
    IntervalsHeadChecksum = "intervals.head_checksum",
    /// The intervals do not reach beyond the largest integer; every table has two symbols
    /// at least, each of them an interval (zxi1 2 and 4).
    IntervalsList = "intervals.list",
    /// The length of every block is within the bounds that its elements set (zxi1 5).
    IntervalsBlocks = "intervals.blocks",
    /// A block matches its checksum (zxi1 5).
    IntervalsBlockChecksum = "intervals.block_checksum",
    /// The raw bits of a block are consumed exactly (zxi1 5).
    IntervalsRawBits = "intervals.raw_bits",
    /// The payload of a stored plane has the plane's length (z4ai-frames 4.1).
    StoreLength = "store.length",
    /// The block table of a plane with method 2 is consistent (z4ai-frames
    /// 4.3).
    BlocksTable = "blocks.table",

    /// The symbol count, chunk count and flags of a rANS payload are consistent
    /// (z4ai-frames 6 to 8).
    RansHead = "rans.head",
    /// The frequencies of a table sum to 16384 (z4ai-frames 5.1).
    RansTable = "rans.table",
    /// The rows of an order-1 model are well formed (z4ai-frames 8.1).
    RansModel = "rans.model",
    /// Every context that occurs has a row in the model (z4ai-frames 8.2).
    RansContext = "rans.context",
    /// The lengths of chunks and segments add up to the payload (z4ai-frames 6,
    /// 7 and 8.2).
    RansChunks = "rans.chunks",
    /// The initial states are within their range (z4ai-frames 5.4).
    RansState = "rans.state",
    /// Decoding consumes all bytes and returns all states to their start
    /// (z4ai-frames 5.4).
    RansEnd = "rans.end",
    /// The stream is long enough for the number of symbols that it declares
    /// (z4ai-frames 13 rule 5).
    RansCapacity = "rans.capacity",

    /// The symbols of a table are in order, and their frequencies sum to 4096
    /// (zxd1 7).
    InterleavedTable = "interleaved.table",
    /// The states of a rANS stream are within their range at the start and back
    /// at their start at the end, and all words are consumed (zxd1 8).
    InterleavedStream = "interleaved.stream",
    /// A side stream is of a known kind and long enough for the bytes that it
    /// declares (zxd1 9).
    InterleavedSide = "interleaved.side",

    /// The dtype, flags, number of states and lengths in the head of a `ZXD1`
    /// frame are within their ranges (zxd1 3).
    DifferenceHeader = "difference.header",
    /// The head of a `ZXD1` frame matches its checksum (zxd1 3).
    DifferenceHeadChecksum = "difference.head_checksum",
    /// Every context refers to an existing table and has a shift of at most 24
    /// (zxd1 6).
    DifferenceContexts = "difference.contexts",
    /// The length of every block is within the bounds that its elements set
    /// (zxd1 10).
    DifferenceBlocks = "difference.blocks",
    /// A block matches its checksum (zxd1 10).
    DifferenceBlockChecksum = "difference.block_checksum",
    /// The raw bits of a block are consumed exactly (zxd1 10).
    DifferenceRawBits = "difference.raw_bits",

    /// The data are one well-formed RFC 8878 frame without a dictionary
    /// (z4ai-frames 1).
    ZstdFrame = "zstd.frame",
    /// The window of a zstd frame has at most 2^27 bytes (z4ai-frames 1).
    ZstdWindow = "zstd.window",
    /// The declared content size of a zstd frame is the expected one
    /// (z4ai-frames 1).
    ZstdContentSize = "zstd.content_size",
    /// A zstd frame is long enough for the bytes that it declares (z4ai-frames
    /// 13 rule 5).
    ZstdCapacity = "zstd.capacity",
    /// A zstd frame fills its payload (z4ai-frames 1).
    ZstdTrailing = "zstd.trailing",
    /// The blocks of a zstd frame can be decoded (RFC 8878).
    ZstdData = "zstd.data",
    /// An auxiliary zstd frame declares its content size (z4ai-frames 1).
    ZstdSized = "zstd.sized",
    /// The data are one RFC 7932 stream that fills its payload (z4ai-frames 1).
    BrotliData = "brotli.data",
    /// A brotli stream decodes to exactly the declared length (z4ai-frames
    /// 11.3).
    BrotliLength = "brotli.length",

    /// A zTensor file starts with the magic of a known version (ztensor 1).
    ZTensorMagic if "ztensor" = "ztensor.magic",
    /// The end of a zTensor file gives the location of the metadata (ztensor 2,
    /// 7.1, 7.2 and 8.1).
    ZTensorFooter if "ztensor" = "ztensor.footer",
    /// The manifest matches the hash in the footer (ztensor 8.1).
    ZTensorManifestHash if "ztensor" = "ztensor.manifest_hash",
    /// The metadata are one well-formed CBOR item (ztensor 3.1, 6.2 step 4 and
    /// 8.2).
    ZTensorCbor if "ztensor" = "ztensor.cbor",
    /// The required keys are present, with values of their types (ztensor 6.2
    /// step 5, 7 and 8.2).
    ZTensorField if "ztensor" = "ztensor.field",
    /// Tensor names are distinct and not too long (ztensor 6.3 and 8.2).
    ZTensorName if "ztensor" = "ztensor.name",
    /// The dtype and the logical type are known (ztensor 4, 7.2 and 8.2).
    ZTensorDtype if "ztensor" = "ztensor.dtype",
    /// The layout is known, and the tensor has the parts that it requires
    /// (ztensor 6.2 step 5 and 8.3).
    ZTensorLayout if "ztensor" = "ztensor.layout",
    /// The encoding and the byte order are known (ztensor 5 and 6.2 step 5).
    ZTensorEncoding if "ztensor" = "ztensor.encoding",
    /// The blobs are aligned and lie before the metadata (ztensor 6.2 step 6
    /// and 8.2).
    ZTensorPlace if "ztensor" = "ztensor.place",
    /// The size computed from a tensor's shape fits in 64 bits (ztensor 4).
    ZTensorOverflow if "ztensor" = "ztensor.overflow",
    /// Every part decodes to the length that follows from shape and dtype
    /// (ztensor 6.2 step 7, 7.2 and 8.3).
    ZTensorLength if "ztensor" = "ztensor.length",
    /// A checksum in the metadata can be parsed (ztensor 5 and 8.2).
    ZTensorChecksumText if "ztensor" = "ztensor.checksum_text",
    /// The data match the checksum in the metadata (ztensor 5, 7.2 and 8.2).
    ZTensorChecksum if "ztensor" = "ztensor.checksum",
    /// The indices of a sparse layout are sorted and in range, and no element
    /// is stored twice (ztensor 6.1 and 8.3).
    ZTensorSparse if "ztensor" = "ztensor.sparse",
    /// The seek table of a stream of zstd frames agrees with the frames
    /// (ztensor 8.3).
    ZTensorSeekTable if "ztensor" = "ztensor.seek_table",
    /// The truth values of version 2 are 0 or 1 (ztensor 8.2).
    ZTensorBool if "ztensor" = "ztensor.bool",
    /// The unused half of the last byte of an odd number of 4-bit elements is
    /// zero (ztensor 8.2).
    ZTensorPadding if "ztensor" = "ztensor.padding",
    /// A shard has the length and the digest that its model lists (ztensor 8.4).
    ZTensorShard if "ztensor" = "ztensor.shard",
    /// A Gauss file starts with `GAUSS001` to `GAUSS004` (gauss 2.1 and 11
    /// check 2).
    GaussMagic if "gauss" = "gauss.magic",
    /// The file is long enough for the number of tensors in its header (gauss
    /// 11 check 1).
    GaussCount if "gauss" = "gauss.count",
    /// Tensor names are UTF-8 and distinct (gauss 11 check 2).
    GaussName if "gauss" = "gauss.name",
    /// The number of a dtype is 0 to 7 (gauss 11 check 2).
    GaussDtype if "gauss" = "gauss.dtype",
    /// The number of elements fits in 64 bits (gauss 11 check 4).
    GaussShape if "gauss" = "gauss.shape",
    /// The shards cover the rows of the tensor (gauss 11 checks 2 and 4).
    GaussShards if "gauss" = "gauss.shards",
    /// A mixture has at least two components, whose weights, means and widths
    /// are finite (gauss 11 check 3).
    GaussMixture if "gauss" = "gauss.mixture",
    /// The residual scale is at least 1 (gauss 11 check 3).
    GaussScale if "gauss" = "gauss.scale",
    /// A raw tensor has the length that follows from shape and dtype (gauss 11
    /// check 5).
    GaussRawLength if "gauss" = "gauss.raw_length",
    /// The tensors lie inside the file (gauss 11 check 1).
    GaussPlace if "gauss" = "gauss.place",
    /// The last word of a stream is not zero (gauss 11 check 6).
    GaussStream if "gauss" = "gauss.stream",
    /// The coder is empty after the last symbol (gauss 11 check 6).
    GaussEnd if "gauss" = "gauss.end",

    /// The virtual header of a ZSTN file describes tensors inside the original, as
    /// they are there (zstn-virtual-header 5).
    ZstnVirtualHeader = "zstn.virtual_header",

    /// A GGUF file starts with `GGUF` (gguf 1).
    GgufMagic if "gguf" = "gguf.magic",
    /// The version of a GGUF file is 2 or 3 (gguf 1).
    GgufVersion if "gguf" = "gguf.version",
    /// The file is long enough for the numbers of tensors and metadata entries
    /// in its header (gguf 1).
    GgufCount if "gguf" = "gguf.count",
    /// Metadata keys are UTF-8, distinct and not empty (gguf 2).
    GgufKey if "gguf" = "gguf.key",
    /// The type of a metadata value is 0 to 12 (gguf 2).
    GgufValueType if "gguf" = "gguf.value_type",
    /// A string lies inside the file (gguf 2).
    GgufString if "gguf" = "gguf.string",
    /// The elements of an array lie inside the file, and arrays are nested at
    /// most 4 levels deep (gguf 2).
    GgufArray if "gguf" = "gguf.array",
    /// The alignment is a power of two, stored in 32 bits (gguf 2).
    GgufAlignment if "gguf" = "gguf.alignment",
    /// Tensor names are UTF-8 and distinct (gguf 3).
    GgufName if "gguf" = "gguf.name",
    /// A tensor has at most 4 dimensions (gguf 3).
    GgufDims if "gguf" = "gguf.dims",
    /// A tensor has at most 2^63 − 1 elements and bytes (gguf 3).
    GgufShape if "gguf" = "gguf.shape",
    /// The number of an element type is known (gguf 3).
    GgufType if "gguf" = "gguf.type",
    /// A row has whole blocks (gguf 3).
    GgufRow if "gguf" = "gguf.row",
    /// The offset of a tensor is a multiple of the alignment and inside the
    /// file (gguf 3).
    GgufOffset if "gguf" = "gguf.offset",
    /// The tensors end inside the file (gguf 3).
    GgufData if "gguf" = "gguf.data",
    /// Tensors do not overlap (gguf 3).
    GgufOverlap if "gguf" = "gguf.overlap",
    /// Several GGUF files of one model state the places that their names have, and
    /// have as many tensors as the first one states (gguf 6).
    GgufSplit if "gguf" = "gguf.split",

    /// The header of a NumPy array has the specified structure, and a dtype
    /// that can be converted (npy 1 and 2).
    NpyHeader if "npy" = "npy.header",
    /// The data of a NumPy array have the length that follows from shape and
    /// dtype (npy 3).
    NpyLength if "npy" = "npy.length",

    /// The messages of an ONNX model are well-formed, and lie inside each other
    /// (onnx 1).
    OnnxProtobuf if "onnx" = "onnx.protobuf",
    /// An ONNX model has a graph (onnx 2).
    OnnxGraph if "onnx" = "onnx.graph",
    /// The names of tensors are UTF-8, distinct and not empty (onnx 5).
    OnnxName if "onnx" = "onnx.name",
    /// No size of a tensor is negative, and it has at most 2^63 − 1 elements and
    /// bytes (onnx 2).
    OnnxShape if "onnx" = "onnx.shape",
    /// The type of the elements can be read (onnx 3).
    OnnxType if "onnx" = "onnx.type",
    /// The values are stored once, and are elements of their type (onnx 4).
    OnnxValue if "onnx" = "onnx.value",
    /// The values have the length that follows from shape and type (onnx 4).
    OnnxLength if "onnx" = "onnx.length",
    /// Values in another file are in an existing file of the model's folder
    /// (onnx 4).
    OnnxLocation if "onnx" = "onnx.location",
    /// Offset and length of values in another file are numbers, and the values
    /// lie inside the file (onnx 4).
    OnnxExtent if "onnx" = "onnx.extent",
    /// At most 32 graphs are nested (onnx 5).
    OnnxDepth if "onnx" = "onnx.depth",

    /// The object in a msgpack file is a map (msgpack 1).
    MsgpackRoot if "msgpack" = "msgpack.root",
    /// No value begins with the reserved byte C1 (msgpack 1).
    MsgpackType if "msgpack" = "msgpack.type",
    /// The file ends with its object (msgpack 1).
    MsgpackTrailing if "msgpack" = "msgpack.trailing",
    /// At most 64 maps and lists are nested (msgpack 1).
    MsgpackDepth if "msgpack" = "msgpack.depth",
    /// Keys are UTF-8, and the names that are made from them are distinct
    /// (msgpack 2).
    MsgpackName if "msgpack" = "msgpack.name",
    /// An array is a list of its shape, the name of a known dtype, and its bytes
    /// (msgpack 3).
    MsgpackArray if "msgpack" = "msgpack.array",
    /// The bytes of an array have the length that follows from shape and dtype
    /// (msgpack 3).
    MsgpackLength if "msgpack" = "msgpack.length",
    /// An array in chunks has all of its chunks, of one dtype (msgpack 4).
    MsgpackChunks if "msgpack" = "msgpack.chunks",

    /// A TensorFlow Lite model has the identifier `TFL3` (tflite 1).
    TfliteIdentifier if "tflite" = "tflite.identifier",
    /// Tables, vectors and values lie inside the file (tflite 1).
    TfliteFlatbuffer if "tflite" = "tflite.flatbuffer",
    /// Tensor names are UTF-8 (tflite 2).
    TfliteName if "tflite" = "tflite.name",
    /// No size of a tensor is negative, and it has at most 2^63 − 1 elements and
    /// bytes (tflite 2).
    TfliteShape if "tflite" = "tflite.shape",
    /// The type of the elements can be read (tflite 2).
    TfliteType if "tflite" = "tflite.type",
    /// The values have the length that follows from shape and type (tflite 2).
    TfliteLength if "tflite" = "tflite.length",

    /// A zip archive ends with its end record, is in one file, and both versions of
    /// the record agree (zip 1).
    ZipEnd if "zip" = "zip.end",
    /// The directory of a zip archive lies before its end record and has the stated
    /// number of entries (zip 2).
    ZipDirectory if "zip" = "zip.directory",
    /// A member lies before the next one, its local header agrees with the
    /// directory, and it has the lengths that the directory states (zip 2 and 3).
    ZipMember if "zip" = "zip.member",
    /// No other member has the name of one that is read (zip 2).
    ZipName if "zip" = "zip.name",
    /// A member is stored or deflated (zip 2).
    ZipMethod if "zip" = "zip.method",
    /// A member that is read is not encrypted (zip 2).
    ZipEncrypted if "zip" = "zip.encrypted",
    /// The bytes of a member match its CRC-32 (zip 3).
    ZipChecksum if "zip" = "zip.crc",

    /// The pickle is well formed, and describes tensors or plain values (pytorch 2).
    PyTorchPickle if "zip" = "pytorch.pickle",
    /// The names of tensors are distinct (pytorch 2.3).
    PyTorchName if "zip" = "pytorch.name",
    /// The storage of a tensor is in the file and has its length (pytorch 3).
    PyTorchStorage if "zip" = "pytorch.storage",
    /// The elements of a tensor lie inside its storage, and have at most 2^63 − 1
    /// bytes (pytorch 3).
    PyTorchExtent if "zip" = "pytorch.extent",
    /// The byte order is `little` or `big` (pytorch 1).
    PyTorchByteOrder if "zip" = "pytorch.byteorder",
    /// A file from before version 1.6 has its five pickles, and the storages after
    /// them have the stated lengths (pytorch 4).
    PyTorchLegacy if "zip" = "pytorch.legacy",

    /// The weights of a Keras model are stored in its archive without compression
    /// (keras 1).
    KerasWeights if "keras" = "keras.weights",

    /// The header of a member of a tar archive matches its checksum, and lengths are
    /// numbers (tar 2 and 3).
    TarHeader if "tar" = "tar.header",
    /// The members of a tar archive and a block of zeros after them lie in the file
    /// (tar 1).
    TarEnd if "tar" = "tar.end",
    /// The members of a tar archive that are checkpoints have names of UTF-8, and tensors
    /// have distinct names (tar 4).
    TarName if "tar" = "tar.name",
    /// A tar archive has a member that is a checkpoint of PyTorch (tar 4).
    TarMember if "tar" = "tar.member",

    /// The superblock of an HDF5 file has a known version, and addresses of 4 or
    /// 8 bytes (hdf5 1).
    Hdf5Superblock if "hdf5" = "hdf5.superblock",
    /// An HDF5 file has the length that its superblock states (hdf5 1).
    Hdf5Truncated if "hdf5" = "hdf5.truncated",
    /// Structures match their checksums (hdf5 1).
    Hdf5Checksum if "hdf5" = "hdf5.checksum",
    /// The header of an object is well-formed (hdf5 2).
    Hdf5Header if "hdf5" = "hdf5.header",
    /// The members of a group are well-formed, and their paths are UTF-8 and
    /// distinct (hdf5 3).
    Hdf5Group if "hdf5" = "hdf5.group",
    /// The shape of a dataset has a known version, and elements (hdf5 4).
    Hdf5Shape if "hdf5" = "hdf5.shape",
    /// The elements of a dataset have a dtype (hdf5 4).
    Hdf5Type if "hdf5" = "hdf5.type",
    /// The layout of a dataset has a known version, and fits its shape (hdf5 5).
    Hdf5Layout if "hdf5" = "hdf5.layout",
    /// The values have the length that follows from shape and type, and lie
    /// inside the file (hdf5 5).
    Hdf5Extent if "hdf5" = "hdf5.extent",
    /// Chunks lie inside their dataset, and their filters can be reversed (hdf5 5
    /// and 6).
    Hdf5Chunk if "hdf5" = "hdf5.chunk",
    /// The values of a dataset are in this file (hdf5 5).
    Hdf5External if "hdf5" = "hdf5.external",

    /// The entries of `config.json` have their specified types
    /// (compressed-tensors 5).
    CompressedTensorsConfig if "compressed-tensors" = "compressed_tensors.config",
    /// The configuration names the format in which a weight is stored
    /// (compressed-tensors 5.3).
    CompressedTensorsFormat if "compressed-tensors" = "compressed_tensors.format",
    /// The arguments of a quantised weight are present and valid
    /// (compressed-tensors 5.2 and 5.3).
    CompressedTensorsScheme if "compressed-tensors" = "compressed_tensors.scheme",
    /// Tensor names are distinct, and each tensor is stored in one way only
    /// (compressed-tensors 2).
    CompressedTensorsName if "compressed-tensors" = "compressed_tensors.name",
    /// All parts of a weight are present (compressed-tensors 2 and 6 to 9).
    CompressedTensorsParts if "compressed-tensors" = "compressed_tensors.parts",
    /// The parts of a weight have the dtypes of its format (compressed-tensors
    /// 3 to 9).
    CompressedTensorsDtype if "compressed-tensors" = "compressed_tensors.dtype",
    /// The shapes of all parts fit the shape of the weight (compressed-tensors
    /// 3 to 9).
    CompressedTensorsShape if "compressed-tensors" = "compressed_tensors.shape",
    /// The mask has one bit set for every stored value, none past the last
    /// column, and two in every group of a 2:4 weight (compressed-tensors 3 and
    /// 4).
    CompressedTensorsMask if "compressed-tensors" = "compressed_tensors.mask",
    /// The values of each row begin at its offset (compressed-tensors 3).
    CompressedTensorsRowOffsets if "compressed-tensors" = "compressed_tensors.row_offsets",
    /// Every column belongs to an existing group (compressed-tensors 7.4).
    CompressedTensorsGroupIndex if "compressed-tensors" = "compressed_tensors.group_index",
    /// Every group of four has two distinct positions, the lower one first
    /// (compressed-tensors 9).
    CompressedTensorsPositions if "compressed-tensors" = "compressed_tensors.positions",
}
