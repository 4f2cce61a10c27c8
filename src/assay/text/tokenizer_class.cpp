// Which class of Transformers 5 reads a tokenizer, and what it does otherwise than tokenizer.json says.
#include "assay/text/tokenizer_class.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "assay/base/json.h"
#include "assay/text/sentencepiece_spec.h"
#include "assay/text/tokenizer_components.h"

namespace assay {

namespace {

using Names = std::span<const std::string_view>;

bool is_among(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Types of models whose tokenizer.json stands as it is, whatever class their files name.
constexpr std::string_view kAsItStands[] = {
    "arctic",         "aria",
    "chatlm",         "ernie4_5",
    "ernie4_5_moe",   "flex_olmo",
    "fuyu",           "glm",
    "glm4",           "glm4_moe",
    "glm4v",          "glm4v_moe",
    "got_ocr2",       "gpt_bigcode",
    "granite",        "granitemoe",
    "h2ovl_chat",     "granitemoehybrid",
    "hyperclovax",    "hyperclovax_vlm",
    "internlm2",      "internlm3",
    "iquestcoder",    "granitemoeshared",
    "jamba",          "kimi_k25",
    "kimi_linear",    "llava",
    "llava_next",     "glm4_moe_lite",
    "minicpm3",       "minicpmv",
    "minimax_m2",     "ministral",
    "ministral3",     "mimo_v2_flash",
    "mistral",        "mistral3",
    "mistral_large4", "mixtral",
    "molmo",          "modernbert-decoder",
    "molmo2",         "nemotron",
    "nvfp4",          "olmo2",
    "olmo3",          "olmo_hybrid",
    "opencua",        "openvla",
    "paddleocr_vl",   "persimmon",
    "phi3",           "phi3_v",
    "phimoe",         "pixtral",
    "smolvlm",        "stablelm",
    "step3_vl",       "vipllava",
    "voxtral",
};

struct ClassOfTypes {
  std::string_view name;
  std::vector<std::string_view> types;
};

// The class of a model's type, where its files name none.
const std::vector<ClassOfTypes>& classes_of_types() {
  static const std::vector<ClassOfTypes> all = {
      {"GPT2Tokenizer", {"gpt2", "gpt_neo", "gptj", "opt", "phi", "starcoder2", "codegen", "dbrx", "jais2"}},
      {"Qwen2Tokenizer",
       {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "qwen2_vl", "qwen2_5_vl", "qwen3_vl",
        "qwen3_vl_moe", "qwen2_audio", "qwen2_5_omni", "qwen3_omni_moe", "internvl"}},
      {"Qwen3_5Tokenizer", {"qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text"}},
      {"GemmaTokenizer",
       {"gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "recurrent_gemma"}},
      {"GPTNeoXTokenizer",
       {"gpt_neox", "olmo", "olmoe", "mpt", "falcon_mamba", "mamba", "mamba2", "rwkv", "xlstm"}},
      {"CohereTokenizer", {"cohere", "cohere2", "aya_vision"}},
      {"OpenAIGPTTokenizer", {"openai-gpt"}},
      {"XGLMTokenizer", {"xglm"}},
      {"T5Tokenizer", {"t5"}},
  };
  return all;
}

// Types whose own class stands in place of any that their files name.
constexpr std::string_view kOwnClassOnly[] = {"qwen2", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text"};

constexpr std::string_view kByteLevel[] = {"GPT2Tokenizer",  "CodeGenTokenizer", "GPTNeoXTokenizer",
                                           "Qwen2Tokenizer", "Qwen3_5Tokenizer", "CohereTokenizer"};

// Classes that build a tokenizer anew, by rules that are not known here.
constexpr std::string_view kUnknownRules[] = {
    "AlbertTokenizer",      "BarthezTokenizer",    "BartTokenizer",      "BertTokenizer",
    "BigBirdTokenizer",     "BlenderbotTokenizer", "CamembertTokenizer", "CLIPTokenizer",
    "DebertaTokenizer",     "DebertaV2Tokenizer",  "FunnelTokenizer",    "HerbertTokenizer",
    "MBartTokenizer",       "MBart50Tokenizer",    "MPNetTokenizer",     "NllbTokenizer",
    "PegasusTokenizer",     "ReformerTokenizer",   "RemBertTokenizer",   "RobertaTokenizer",
    "SeamlessM4TTokenizer", "WhisperTokenizer",    "XGLMTokenizer",      "XLMRobertaTokenizer",
    "XLNetTokenizer"};

constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The text of a token that tokenizer_config.json names, as a text or as an object.
std::string named_token(const JsonView& config, std::string_view key, std::string_view otherwise) {
  const auto found = config.raw().find(key);
  if (found == config.raw().end()) return std::string(otherwise);
  const Json& content = found->is_object() && found->contains("content") ? found->at("content") : *found;
  return content.is_string() ? content.get<std::string>() : std::string(otherwise);
}

// Rules in which a file's model has nothing but vocabulary and merges.
void clear_rules(TokenizerSpec& spec) {
  spec.ignore_merges = spec.fuse_unknown = spec.byte_fallback = false;
  spec.unknown.reset();
  spec.normalizer = {};
  spec.decode = {};
}

void set_byte_level_rules(const std::string& name, const JsonView& config, TokenizerSpec& spec) {
  clear_rules(spec);
  const bool has_prefix = config.boolean_or("add_prefix_space", false);
  spec.words = WordForm::bytes;
  if (name != "GPT2Tokenizer" && name != "CodeGenTokenizer")
    spec.normalizer.form(NormalForm::nfc, config.where());
  std::vector<PreTokenizer::Step> steps;
  ByteLevelStep bytes{.adds_prefix_space = has_prefix};
  if (name == "CohereTokenizer") {
    steps.emplace_back(SplitStep{CharSet::numbers, SplitBehavior::isolated});
  } else if (name == "Qwen2Tokenizer") {
    steps.emplace_back(SplitStep{WordPattern::qwen2});
    bytes.splits = false;
  } else if (name == "Qwen3_5Tokenizer") {
    steps.emplace_back(SplitStep{Regex(std::string(kQwen35), config.where())});
    bytes.splits = false;
  }
  steps.emplace_back(bytes);
  spec.pre = PreTokenizer(std::move(steps));
}

void set_gpt_rules(const JsonView& config, TokenizerSpec& spec) {
  clear_rules(spec);
  spec.unknown = spec.vocabulary.find(named_token(config, "unk_token", "<unk>"));
  spec.normalizer.bert({}, config.where());
  spec.pre = PreTokenizer({SplitStep{CharSet::blanks, SplitBehavior::removed},
                           SplitStep{CharSet::punctuation, SplitBehavior::isolated}});
  spec.decode.is_byte_level = false;
  spec.decode.before = {{.kind = DecodeStep::Kind::suffix, .pattern = "</w>"}};
}

// Whether the class has been followed.
bool follow(const std::string& name, const JsonView& config, TokenizerSpec& spec, NamedTokens& defaults) {
  const bool is_bpe = spec.kind == ModelKind::bpe, has_prefix = !spec.bpe_prefix.empty();
  const bool is_plain = is_bpe && !has_prefix && spec.bpe_suffix.empty();
  if (is_among(name, kByteLevel)) {
    if (!is_plain || spec.words == WordForm::characters) return false;
    set_byte_level_rules(name, config, spec);
    return true;
  }
  const bool is_of_characters = is_plain && spec.words == WordForm::characters;
  if (name == "GemmaTokenizer" && is_of_characters) {
    set_gemma_rules(config, named_token(config, "unk_token", "<unk>"), spec);
  } else if (name == "CodeLlamaTokenizer" && is_of_characters) {
    set_code_llama_rules(config, named_token(config, "unk_token", "<unk>"), spec);
  } else if (name == "OpenAIGPTTokenizer" && is_bpe && !has_prefix && spec.bpe_suffix == "</w>") {
    set_gpt_rules(config, spec);
  } else if (name == "LlamaTokenizer" && is_of_characters) {
    set_llama_rules(config, spec, defaults);
  } else {
    return false;
  }
  return true;
}

// Steps of the file's pre-tokenizer that a class of kByteLevel does not have.
std::vector<Component> left_out_steps(const std::string& name, const TokenizerFiles::Document& file) {
  const std::string_view own = name == "CohereTokenizer"  ? "Digits"
                               : name.starts_with("Qwen") ? "Split"
                                                          : "ByteLevel";
  std::vector<Component> left_out;
  for (const Component& step :
       components(JsonView(file.content, file.where), "pre_tokenizer", "pretokenizers"))
    if (step.type != "ByteLevel" && step.type != own) left_out.push_back(step);
  return left_out;
}

}  // namespace

std::string class_of(const TokenizerFiles& files) {
  const JsonView config(files.config.content, files.config.where);
  std::string name = config.text_or("tokenizer_class", "");
  if (name.empty()) name = files.model_class;
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if ((name == "LlamaTokenizer" || files.tokenizer) && is_among(files.model_type, kAsItStands)) return "";
  std::string own;
  for (const ClassOfTypes& each : classes_of_types())
    if (is_among(files.model_type, each.types)) own = each.name;
  if (!own.empty() && (name.empty() || is_among(files.model_type, kOwnClassOnly))) return own;
  if (!name.empty()) return name;
  return files.vocabulary ? "GPT2Tokenizer" : "";
}

NamedTokens default_tokens(std::string_view name) {
  const std::string end(kEndOfText);
  if (name == "GPT2Tokenizer" || name == "CodeGenTokenizer")
    return {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}};
  if (name == "GPTNeoXTokenizer")
    return {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}, {"pad_token", "<|padding|>"}};
  if (name == "Qwen2Tokenizer" || name == "Qwen3_5Tokenizer")
    return {{"eos_token", end}, {"unk_token", end}, {"pad_token", end}};
  if (name == "CohereTokenizer")
    return {{"bos_token", "<BOS_TOKEN>"},  {"eos_token", "<|END_OF_TURN_TOKEN|>"},
            {"unk_token", "<UNK>"},        {"sep_token", "<SEP>"},
            {"pad_token", "<PAD>"},        {"cls_token", "<CLS>"},
            {"mask_token", "<MASK_TOKEN>"}};
  if (name == "GemmaTokenizer")
    return {{"bos_token", "<bos>"},
            {"eos_token", "<eos>"},
            {"unk_token", "<unk>"},
            {"pad_token", "<pad>"},
            {"mask_token", "<mask>"}};
  if (name == "CodeLlamaTokenizer")
    return {{"bos_token", "<s>"},
            {"eos_token", "</s>"},
            {"unk_token", "<unk>"},
            {"prefix_token", "\u2581<PRE>"},
            {"middle_token", "\u2581<MID>"},
            {"suffix_token", "\u2581<SUF>"},
            {"eot_token", "\u2581<EOT>"},
            {"fill_token", "<FILL_ME>"}};
  if (name == "OpenAIGPTTokenizer") return {{"unk_token", "<unk>"}};
  return {};
}

void set_class_rules(const std::string& name, const TokenizerFiles& files, TokenizerSpec& spec,
                     NamedTokens& defaults) {
  const JsonView config(files.config.content, files.config.where);
  // Its post-processor is built anew too, without what add_bos_token says.
  const bool follows = follow(name, config, spec, defaults);
  if (follows && name == "GPTNeoXTokenizer") {
    spec.bos.clear();
    spec.eos.clear();
  }
  if (follows && is_among(name, kByteLevel))
    if (const auto steps = left_out_steps(name, *files.tokenizer); !steps.empty())
      spec.warnings.push_back(
          fmt::format("{}: Transformers 5 reads it by the rules of {}, which leave out its pre_tokenizer {}: "
                      "token ids are those of Transformers 5, and may differ from those that the model was "
                      "trained with",
                      files.tokenizer->where, name, types_of(steps)));
  const bool has_rules = is_among(name, kUnknownRules) || is_among(name, kByteLevel) ||
                         name == "GemmaTokenizer" || name == "CodeLlamaTokenizer" ||
                         name == "OpenAIGPTTokenizer";
  if (!follows && has_rules)
    spec.warnings.push_back(
        fmt::format("{}: Transformers 5 builds the tokenizer by the rules of {}, and its normalizer, "
                    "pre_tokenizer, decoder "
                    "and special tokens are those of {} here: token ids may differ",
                    config.where(), name, files.tokenizer->where));
}

}  // namespace assay
