// Loads all tensors of a model into the program's memory, many at a time:
//     load MODEL
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <zstn.h>

namespace {

struct Free {
    void operator()(zstn_reader *reader) const { zstn_reader_free(reader); }
};
using Reader = std::unique_ptr<zstn_reader, Free>;

void check(zstn_status status, const zstn_error &error) {
    if (status != ZSTN_OK) {
        throw std::runtime_error(error.message);
    }
}

Reader open(const std::string &path) {
    zstn_error error;
    zstn_reader *reader;
    check(zstn_open_path(path.c_str(), nullptr, &reader, &error), error);
    return Reader(reader);
}

std::map<std::string, std::vector<unsigned char>> load(const zstn_reader *reader) {
    const zstn_model *model = zstn_reader_model(reader);
    std::map<std::string, std::vector<unsigned char>> tensors;
    std::vector<zstn_target> targets;
    zstn_error error;
    for (std::size_t number = 0; number < zstn_model_tensor_count(model); ++number) {
        zstn_tensor tensor = ZSTN_INIT;
        tensor.struct_size = sizeof tensor;
        check(zstn_model_tensor(model, number, &tensor, &error), error);
        std::vector<unsigned char> &bytes = tensors[tensor.name];
        bytes.resize(static_cast<std::size_t>(tensor.len));
        targets.push_back(zstn_target{number, bytes.data(), bytes.size()});
    }
    check(zstn_read_many(reader, targets.data(), targets.size(), nullptr, nullptr, &error), error);
    return tensors;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: load MODEL\n");
        return 2;
    }
    try {
        const Reader reader = open(argv[1]);
        std::uint64_t total = 0;
        for (const auto &tensor : load(reader.get())) {
            total += tensor.second.size();
        }
        std::printf("%llu bytes\n", static_cast<unsigned long long>(total));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
    return 0;
}
