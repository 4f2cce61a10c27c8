// Weight files that are broken or hostile: one sentence that names file and tensor, never a crash.
#include "support/program.h"
#include "support/tiny_model.h"

namespace assay::test {
namespace {

const std::string kTensor = "transformer.h.0.attn.c_attn.weight";  // [4, 12]

// Every command that reads weights says the same.
void expect_weights_refused(const std::string& folder, std::initializer_list<std::string> words) {
  expect_failure(run_program({"inspect", folder}), 1, words);
  expect_failure(run_program({"generate", folder, "--ids", "1,2", "-n", "2"}), 1, words);
}

class CliBadSafetensors : public testing::Test {
 protected:
  void expect_bytes_refused(std::string_view bytes, std::initializer_list<std::string> words) {
    expect_weights_refused(model_.write(folder_.path(), bytes), words);
  }
  void expect_header_refused(const nlohmann::ordered_json& header, std::initializer_list<std::string> words) {
    expect_bytes_refused(safetensors_with_header(header.dump(), model_.data()), words);
  }
  void expect_tensors_refused(std::initializer_list<std::string> words) {
    expect_weights_refused(model_.write(folder_.path()), words);
  }

  TemporaryFolder folder_;
  TinyModel model_;
};

TEST_F(CliBadSafetensors, TheSoundOneLoads) {
  const std::string folder = model_.write(folder_.path());
  expect_success(run_program({"inspect", folder}));
  expect_success(run_program({"generate", folder, "--ids", "1,2", "-n", "2"}));
}

TEST_F(CliBadSafetensors, NotSafetensors) {
  expect_bytes_refused("", {"model.safetensors", "not a safetensors file", "0 bytes"});
  expect_bytes_refused("1234567", {"model.safetensors", "not a safetensors file", "7 bytes"});
  expect_bytes_refused("PK\x03\x04 this is a zip archive, or says so",
                       {"model.safetensors", "not a safetensors file"});
  expect_bytes_refused("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
                       {"model.safetensors"});
  expect_bytes_refused(safetensors_with_header("not JSON", ""), {"model.safetensors", "header", "JSON"});
  expect_bytes_refused(safetensors_with_header("[]", ""), {"model.safetensors", "header", "object", "array"});
  expect_bytes_refused(safetensors_with_header("", ""), {"model.safetensors", "header"});
  expect_bytes_refused(safetensors_with_header("{\"\xff\xfe\":1}", ""), {"model.safetensors", "header"});
}

TEST_F(CliBadSafetensors, HeaderLength) {
  const std::string header = model_.header().dump(), data = model_.data();
  const std::uint64_t beyond = header.size() + data.size() + 1;
  expect_bytes_refused(safetensors_with_header(header, data, beyond),
                       {"model.safetensors", std::to_string(beyond)});
  for (const std::uint64_t absurd :
       {std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{100'000'001}})
    expect_bytes_refused(safetensors_with_header(header, data, absurd),
                         {"model.safetensors", std::to_string(absurd)});
  expect_bytes_refused(safetensors_with_header(header, data, header.size() - 1),
                       {"model.safetensors", "header"});
}

TEST_F(CliBadSafetensors, DeepNesting) {
  constexpr std::size_t kDepth = 100'000;
  const std::string open(kDepth, '['), shut(kDepth, ']');
  expect_bytes_refused(safetensors_with_header("{\"a\":" + open + shut + "}", ""),
                       {"model.safetensors", "nested"});
  expect_bytes_refused(safetensors_with_header("{\"a\":" + open, ""), {"model.safetensors"});
  expect_bytes_refused(safetensors_with_header(open + shut, ""), {"model.safetensors"});
  std::string objects;
  for (std::size_t i = 0; i < kDepth; ++i) objects += "{\"a\":";
  expect_bytes_refused(safetensors_with_header(objects + "1" + std::string(kDepth, '}'), ""),
                       {"model.safetensors", "nested"});
}

TEST_F(CliBadSafetensors, Truncated) {
  const std::string whole = model_.weights();
  for (const std::size_t kept : {std::size_t{8}, std::size_t{100}, whole.size() - model_.data().size(),
                                 whole.size() - 4, whole.size() - 1})
    expect_bytes_refused(whole.substr(0, kept), {"model.safetensors"});
  expect_bytes_refused(whole + "more",
                       {"model.safetensors", std::to_string(whole.size()), std::to_string(whole.size() + 4)});
}

TEST_F(CliBadSafetensors, Offsets) {
  const nlohmann::ordered_json sound = model_.header();
  const auto begin = sound[kTensor]["data_offsets"][0].get<std::int64_t>(),
             end = sound[kTensor]["data_offsets"][1].get<std::int64_t>();
  const auto with = [&](const nlohmann::ordered_json& offsets) {
    nlohmann::ordered_json header = sound;
    header[kTensor]["data_offsets"] = offsets;
    return header;
  };
  expect_header_refused(with({begin - 4, end - 4}), {"model.safetensors", "overlap"});
  expect_header_refused(with({begin, end + 4}), {kTensor, "192", "196"});
  expect_header_refused(with({end, begin}), {kTensor, "backwards"});
  expect_header_refused(with({1'000'000, 1'000'192}), {kTensor, "1000192"});
  expect_header_refused(with({~std::uint64_t{0} - 191, ~std::uint64_t{0}}),
                        {kTensor, "18446744073709551615"});
  for (const char* odd : {"[-4, 188]", "[0.5, 192.5]", "[0]", "[0, 1, 2]", "[]", "{}", "null",
                          "[\"0\", \"192\"]", "192", "[0, 99999999999999999999999]"})
    expect_header_refused(with(nlohmann::ordered_json::parse(odd)), {kTensor, "data_offsets"});
  nlohmann::ordered_json without = sound;
  without[kTensor].erase("data_offsets");
  expect_header_refused(without, {kTensor, "data_offsets"});
}

TEST_F(CliBadSafetensors, Holes) {
  nlohmann::ordered_json header = model_.header();
  header.erase("transformer.wpe.weight");  // its bytes are nobody's now
  expect_header_refused(header, {"model.safetensors", "256", "unused"});
}

TEST_F(CliBadSafetensors, Shapes) {
  const nlohmann::ordered_json sound = model_.header();
  const auto with = [&](const char* shape) {
    nlohmann::ordered_json header = sound;
    header[kTensor]["shape"] = nlohmann::ordered_json::parse(shape);
    return header;
  };
  expect_header_refused(with("[12, 4]"), {"model.safetensors", kTensor, "[4, 12]", "[12, 4]"});
  expect_header_refused(with("[48]"), {kTensor, "[4, 12]", "[48]"});
  expect_header_refused(with("[4, 11]"), {kTensor, "[4, 11]", "176", "192"});
  for (const char* odd :
       {"[4, -12]", "[4.5, 12]", "[\"4\", 12]", "48", "null", "{}", "[1,1,1,1,1,1,1,4,12]",
        "[4294967296, 4294967296]", "[9223372036854775807, 9223372036854775807]", "[4, 1e30]"})
    expect_header_refused(with(odd), {kTensor, "shape"});
  for (const char* empty : {"[0]", "[0, 12]", "[]"}) expect_header_refused(with(empty), {kTensor});
}

TEST_F(CliBadSafetensors, MissingTensor) {
  for (const char* name :
       {"transformer.wte.weight", "transformer.h.0.mlp.c_proj.bias", "transformer.ln_f.weight"}) {
    TinyModel without;
    std::erase_if(without.tensors, [&](const WrittenTensor& t) { return t.name == name; });
    // Without the token table the names could be those of a bare GPT2Model, and the sentence names that
    // spelling.
    expect_weights_refused(without.write(folder_.path()), {std::string(name).substr(12), "missing"});
  }
  model_.tensors.clear();
  expect_tensors_refused({"wte.weight", "missing"});
}

TEST_F(CliBadSafetensors, Dtypes) {
  const std::string bytes = model_.tensor(kTensor).bytes;
  for (const auto& [dtype, width] : {std::pair{"F8_E4M3", 1},
                                     {"F8_E5M2", 1},
                                     {"I8", 1},
                                     {"I64", 8},
                                     {"I32", 4},
                                     {"BOOL", 1},
                                     {"F64", 8}}) {
    model_.tensor(kTensor).dtype = dtype;
    model_.tensor(kTensor).bytes = std::string(static_cast<std::size_t>(48 * width), '\0');
    expect_tensors_refused({"model.safetensors", kTensor, dtype, "F32, F16 or BF16"});
  }
  model_.tensor(kTensor).bytes = bytes;
  model_.tensor(kTensor).dtype = "float32";
  expect_tensors_refused({kTensor, "float32", "F32, F16 or BF16"});
  nlohmann::ordered_json header = model_.header();
  header[kTensor]["dtype"] = 32;
  expect_header_refused(header, {kTensor, "dtype"});
  header[kTensor] = "F32";
  expect_header_refused(header, {kTensor, "object"});
}

TEST_F(CliBadSafetensors, TwoTensorsOfOneName) {
  std::string header = model_.header().dump();
  header.insert(header.size() - 1,
                ",\"" + kTensor + "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}");
  expect_bytes_refused(safetensors_with_header(header, model_.data()),
                       {"model.safetensors", kTensor, "duplicate"});
}

// Names come from strangers: they must not split the sentence into lines or steer the terminal.
TEST_F(CliBadSafetensors, NamesWithControlCharacters) {
  model_.tensors.push_back({"a\nerror: b\x1b[31m", "I8", {3}, "12"});
  expect_tensors_refused({"model.safetensors"});
}

// A listing shows them too, and the C1 controls of UTF-8, which steer a terminal as well (U+009B: "[").
TEST_F(CliBadSafetensors, NamesInAListing) {
  const std::string name =
      "evil\x1b]0;title\x07\xc2\x9b"
      "31m\n" +
      std::string(5000, 'x') + "end.attn.bias";  // a buffer: other names would be refused
  model_.tensors.push_back({name, "I8", {3}, "123"});
  const ProgramResult listing = run_program({"inspect", model_.write(folder_.path())});
  expect_success(listing);
  EXPECT_NE(listing.out.find(R"(evil\x1b]0;title\x07\xc2\x9b31m\nxxx)"), std::string::npos) << listing.out;
  EXPECT_NE(listing.out.find("...xx"), std::string::npos);
  EXPECT_EQ(listing.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(listing.out.find("\xc2\x9b"), std::string::npos);
  for (const std::string& line : lines_of(listing.out)) EXPECT_LT(line.size(), 400U);
  model_.tensors.back().bytes = "12";
  const ProgramResult refused = run_program({"inspect", model_.write(folder_.path())});
  expect_failure(refused, 1, {"model.safetensors", R"(evil\x1b]0;title\x07\xc2\x9b31m)", "...xx"});
  EXPECT_EQ(refused.err.find("\xc2\x9b"), std::string::npos);
  EXPECT_LT(refused.err.size(), 600U);
}

TEST_F(CliBadSafetensors, WeightsThatAreNoNumbers) {
  model_.tensor("transformer.ln_f.bias").bytes = float_bytes(std::vector<float>(4, __builtin_nanf("")));
  const std::string folder = model_.write(folder_.path());
  expect_failure(run_program({"generate", folder, "--ids", "1,2", "-n", "2"}), 1, {"not finite"});
}

// Masks that old files hold are let pass; any other tensor that the configuration does not use is an error.
TEST_F(CliBadSafetensors, OnlyKnownBuffersMayBeUnused) {
  model_.tensors.push_back({"transformer.h.0.attn.bias", "BOOL", {4}, std::string(4, '\1')});
  expect_success(run_program({"generate", model_.write(folder_.path()), "--ids", "1,2", "-n", "2"}));
  model_.tensors.push_back({"counts", "I64", {1}, std::string(8, '\0')});
  expect_failure(run_program({"generate", model_.write(folder_.path()), "--ids", "1,2", "-n", "2"}), 1,
                 {"counts", "not used", "config.json"});
}

}  // namespace
}  // namespace assay::test
