// tokenizer.json, NUL, tokenizer_config.json, NUL, a text to encode.
#include "assay/base/tokenizer_files.h"
#include "json_mutator.h"
#include "tokenizer_use.h"

ASSAY_FUZZ_FORM((assay::fuzz::sections<2, true>()))

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const auto parts = fuzz::split_sections(fuzz::text_of(data, size), 2, true);
  fuzz::is_accepted([&] {
    TokenizerFiles files{.where = "folder", .source = "tokenizer.json"};
    files.tokenizer = {parse_json_object(parts[0].text, "tokenizer.json"), "tokenizer.json"};
    fuzz::is_accepted([&] {
      files.config = {parse_python_json(parts[1].text, "tokenizer_config.json"), "tokenizer_config.json"};
    });
    fuzz::use(Tokenizer::from_files(std::move(files)), parts[2].text);
  });
  return 0;
}
