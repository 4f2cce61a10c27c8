// Normalizers: what is known is read, and what is not is named.
#include <utility>

#include "assay/base/error.h"
#include "assay/text/tokenizer_components.h"

namespace assay {

namespace {

void read_replace(const JsonView& view, Normalizer& out) {
  bool is_regex = false;
  const std::string pattern = pattern_text(view, is_regex);
  if (is_regex) {
    out.replace(Regex(pattern, view.where()), view.text("content"), view.where());
  } else {
    out.replace(pattern, view.text("content"), view.where());
  }
}

void read_charsmap(const JsonView& view, Normalizer& out) {
  const std::string text = view.text_or("precompiled_charsmap", "");
  const auto bytes = from_base64(text);
  if (!bytes)
    throw Error("{}: precompiled_charsmap: expected base64, found {}", view.where(), in_quotes(text));
  if (!bytes->empty()) out.map_characters(Charsmap(*bytes, view.where()), view.where());
}

void read_bert(const JsonView& view, Normalizer& out) {
  BertText how;
  how.cleans = view.boolean_or("clean_text", true);
  how.parts_chinese = view.boolean_or("handle_chinese_chars", true);
  how.lowers_case = view.boolean_or("lowercase", true);
  how.strips_accents = view.boolean_or("strip_accents", how.lowers_case);
  out.bert(how, view.where());
}

void read_form(const std::string& type, const JsonView& view, Normalizer& out) {
  out.form(type == "NFC"    ? NormalForm::nfc
           : type == "NFD"  ? NormalForm::nfd
           : type == "NFKC" ? NormalForm::nfkc
                            : NormalForm::nfkd,
           view.where());
}

}  // namespace

void read_normalizer(const JsonView& file, TokenizerSpec& spec) {
  Normalizer& out = spec.normalizer;
  for (const auto& [type, view] : components(file, "normalizer", "normalizers")) {
    if (type == "Prepend") {
      out.prepend(view.text("prepend"), view.where());
    } else if (type == "Replace") {
      read_replace(view, out);
    } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
      read_form(type, view, out);
    } else if (type == "Lowercase") {
      out.lower_case(view.where());
    } else if (type == "StripAccents") {
      out.strip_marks(view.where());
    } else if (type == "Strip") {
      out.strip_blanks(view.boolean_or("strip_left", true), view.boolean_or("strip_right", true),
                       view.where());
    } else if (type == "Precompiled") {
      read_charsmap(view, out);
    } else if (type == "BertNormalizer") {
      read_bert(view, out);
    } else if (type == "Nmt") {
      out.nmt(view.where());
    } else if (type == "ByteLevel") {
      out.to_bytes(view.where());
    } else {
      throw Error(
          "{}: unsupported normalizer {}: expected Prepend, Replace, NFC, NFD, NFKC, NFKD, Lowercase, Strip, "
          "StripAccents, Precompiled, BertNormalizer, Nmt or ByteLevel",
          file.where(), short_text(type));
    }
  }
}

}  // namespace assay
