// tokenizer_config.json, NUL, the bytes of SentencePiece's tokenizer.model.
#include "assay/base/tokenizer_files.h"
#include "json_mutator.h"
#include "tokenizer_use.h"

ASSAY_FUZZ_FORM((assay::fuzz::sections<1, true>()))

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const auto parts = fuzz::split_sections(fuzz::text_of(data, size), 1, true);
  fuzz::is_accepted([&] {
    TokenizerFiles files{.where = "folder", .source = "tokenizer.model"};
    files.pieces = {parts[1].text, "tokenizer.model"};
    fuzz::is_accepted([&] {
      Json config = parse_python_json(parts[0].text, "tokenizer_config.json");
      // A hundred thousand, which are allowed, take half a second.
      if (const auto extra = config.find("extra_ids");
          extra != config.end() && extra->is_number() && *extra > 300)
        *extra = 300;
      files.config = {std::move(config), "tokenizer_config.json"};
    });
    fuzz::use(Tokenizer::from_files(std::move(files)), {});
  });
  return 0;
}
