#include "assay/checkpoint/gguf_pretokenizer.h"

#include <algorithm>

namespace assay {

namespace {

enum class Cut { gpt2, digits, llama3, qwen2, qwen35, gpt4o, tekken, deepseek_v3, falcon, bloom, none_said };

struct PreName {
  std::string_view name;
  Cut cut;
};
constexpr PreName kPreNames[] = {{"default", Cut::none_said}, {"gpt-2", Cut::gpt2},
                                 {"phi-2", Cut::gpt2},        {"mpt", Cut::gpt2},
                                 {"olmo", Cut::gpt2},         {"jais", Cut::gpt2},
                                 {"gigachat", Cut::gpt2},     {"exaone4", Cut::gpt2},
                                 {"trillion", Cut::gpt2},     {"starcoder", Cut::digits},
                                 {"refact", Cut::digits},     {"command-r", Cut::digits},
                                 {"smollm", Cut::digits},     {"codeshell", Cut::digits},
                                 {"exaone", Cut::digits},     {"minerva-7b", Cut::digits},
                                 {"llama-bpe", Cut::llama3},  {"llama-v3", Cut::llama3},
                                 {"llama3", Cut::llama3},     {"falcon3", Cut::llama3},
                                 {"falcon-h1", Cut::llama3},  {"pixtral", Cut::llama3},
                                 {"midm-2.0", Cut::llama3},   {"lfm2", Cut::llama3},
                                 {"dbrx", Cut::llama3},       {"smaug-bpe", Cut::llama3},
                                 {"glm4", Cut::llama3},       {"chatglm-bpe", Cut::llama3},
                                 {"qwen2", Cut::qwen2},       {"deepseek-r1-qwen", Cut::qwen2},
                                 {"stablelm2", Cut::qwen2},   {"hunyuan", Cut::qwen2},
                                 {"megrez", Cut::qwen2},      {"qwen35", Cut::qwen35},
                                 {"gpt-4o", Cut::gpt4o},      {"llama4", Cut::gpt4o},
                                 {"tekken", Cut::tekken},     {"deepseek-v3", Cut::deepseek_v3},
                                 {"falcon", Cut::falcon},     {"bloom", Cut::bloom},
                                 {"gpt3-finnish", Cut::bloom}};

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekHan = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kBloom = " ?[^(\\s|[.,!?…。，、।۔،])]+";
// llama.cpp's rules for files that say nothing.
constexpr std::string_view kDefaultMarks = R"([\p{P}\$\+<=>\^~\|]+)";

Json split(std::string_view regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json bytes(bool splits) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", splits}};
}

Json digits(bool are_single) {
  return {{"type", "Digits"}, {"individual_digits", are_single}};
}

Json steps_of(Cut cut) {
  switch (cut) {
    case Cut::gpt2:
      return Json::array({bytes(true)});
    case Cut::digits:
      return Json::array({digits(true), bytes(true)});
    case Cut::llama3:
      return Json::array({split(kLlama3), bytes(false)});
    case Cut::qwen2:
      return Json::array({split(kQwen2), bytes(false)});
    case Cut::qwen35:
      return Json::array({split(kQwen35), bytes(false)});
    case Cut::gpt4o:
      return Json::array({split(kGpt4o), bytes(false)});
    case Cut::tekken:
      return Json::array({split(kTekken), bytes(false)});
    case Cut::deepseek_v3:
      return Json::array({split(R"(\p{N}{1,3})"), split(kDeepseekHan), split(kDeepseekV3), bytes(false)});
    case Cut::falcon:
      return Json::array({{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
                          bytes(true),
                          digits(false),
                          split("[0-9][0-9][0-9]")});
    case Cut::bloom:
      return Json::array({split(kBloom), bytes(false)});
    case Cut::none_said:
      return Json::array(
          {split(kDefaultMarks), split(kGpt2), split(R"(\p{N}+)"), split("[0-9][0-9][0-9]"), bytes(false)});
  }
  return {};
}

// A step with what it leaves out filled in, and without what changes no word.
Json plain_step(Json step) {
  step.erase("trim_offsets");
  const std::string type = step.value("type", std::string());
  if (type == "ByteLevel") {
    step.emplace("use_regex", true);
    step.emplace("add_prefix_space", true);
  }
  if (type == "Split") step.emplace("invert", false);
  if (type == "Digits") step.emplace("individual_digits", false);
  return step;
}

bool same_steps(const Json& own, const std::vector<Json>& steps) {
  return std::equal(own.begin(), own.end(), steps.begin(), steps.end(),
                    [](const Json& a, const Json& b) { return plain_step(a) == plain_step(b); });
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool gguf_pretokenizer(std::string_view pre, GgufPretokenizer& out) {
  for (const PreName& each : kPreNames) {
    if (each.name != pre) continue;
    out.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", steps_of(each.cut)}};
    out.has_nfc = is_one_of(pre, {"qwen2", "qwen35"});
    const bool is_llama3 =
        each.cut == Cut::llama3 && !is_one_of(pre, {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"});
    out.adds_bos = is_llama3 || pre == "tekken";
    out.takes_whole_words = out.adds_bos || pre == "glm4";
    return true;
  }
  return false;
}

std::vector<std::string> gguf_pretokenizers() {
  std::vector<std::string> names;
  for (const PreName& each : kPreNames) names.emplace_back(each.name);
  return names;
}

std::optional<std::string_view> gguf_pretokenizer_name(const std::vector<Json>& steps, bool has_nfc,
                                                       bool takes_whole_words) {
  for (const PreName& each : kPreNames) {
    GgufPretokenizer cut;
    gguf_pretokenizer(each.name, cut);
    if (cut.has_nfc == has_nfc && cut.takes_whole_words == takes_whole_words &&
        same_steps(cut.pre_tokenizer.at("pretokenizers"), steps))
      return each.name;
  }
  return std::nullopt;
}

}  // namespace assay
