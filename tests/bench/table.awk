# The medians of `cargo bench` as a Markdown table:
#
#   cargo bench -p zstn-bench | awk -f tests/bench/table.awk
#
# The output has two lines for each stage, times and then rates; columns are
# fastest, slowest, median, mean.

BEGIN { FS = "│"; print "| stage | median |\n|---|--:|" }

/─ .*:/ {
    stage = $0
    sub(/^.*[├╰]─ /, "", stage)
    sub(/ +[0-9.]+ [^ ]*s .*$/, "", stage)
}

/ [KMGT]?B\/s/ {
    rate = $(NF - 3)
    gsub(/^ +| +$/, "", rate)
    print "| " stage " | " rate " |"
}
