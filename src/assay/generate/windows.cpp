#include "assay/generate/windows.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/base/format.h"

namespace assay {

namespace {

struct NamedProtocol {
  Protocol protocol;
  std::string_view name;
};
constexpr NamedProtocol kProtocols[] = {{Protocol::hf, "hf"},
                                        {Protocol::llama_cpp, "llama.cpp"},
                                        {Protocol::lm_eval, "lm-eval"},
                                        {Protocol::gptq, "gptq"}};
struct NamedBosRule {
  BosRule rule;
  std::string_view name;
};
constexpr NamedBosRule kBosRules[] = {{BosRule::none, "none"},
                                      {BosRule::first, "first"},
                                      {BosRule::each, "each"},
                                      {BosRule::replace, "replace"}};

std::vector<Window> windows_without_bos(const WindowRule& rule, std::int64_t tokens, std::int64_t context) {
  switch (rule.protocol) {
    case Protocol::hf:
      return windows_of(tokens, context,
                        std::min(context, rule.stride.value_or(std::max<std::int64_t>(1, rule.context / 2))));
    case Protocol::llama_cpp:
      return rule.stride ? llama_cpp_strided_windows(tokens, context, std::min(context, *rule.stride))
                         : llama_cpp_windows(tokens, context);
    case Protocol::lm_eval:
      return lm_eval_windows(tokens, context, rule.bos_token.value());
    case Protocol::gptq:
      return gptq_windows(tokens, context);
  }
  return {};
}

}  // namespace

Protocol protocol_from_name(std::string_view name) {
  for (const auto& [protocol, known] : kProtocols)
    if (known == name) return protocol;
  throw FieldError("protocol", "expected hf, llama.cpp, lm-eval or gptq, found '{}'", name.substr(0, 64));
}

std::string_view name_of(Protocol protocol) {
  return kProtocols[static_cast<std::size_t>(protocol)].name;
}

BosRule bos_rule_from_name(std::string_view name) {
  for (const auto& [rule, known] : kBosRules)
    if (known == name) return rule;
  throw FieldError("bos", "expected none, first, each or replace, found '{}'", name.substr(0, 64));
}

std::string_view name_of(BosRule rule) {
  return kBosRules[static_cast<std::size_t>(rule)].name;
}

std::vector<TokenId> Window::input_ids(std::span<const TokenId> text) const {
  std::vector<TokenId> ids;
  ids.reserve(static_cast<std::size_t>(inputs()));
  if (before) ids.push_back(*before);
  const auto last = static_cast<std::size_t>(has_last_input ? end : end - 1);
  for (auto i = static_cast<std::size_t>(begin); i < last; ++i) ids.push_back(text[i]);
  if (instead && !ids.empty()) ids.front() = *instead;
  return ids;
}

std::vector<Window> windows_of(std::int64_t tokens, std::int64_t context, std::int64_t stride) {
  std::vector<Window> windows;
  std::int64_t scored_to = 0;
  for (std::int64_t begin = 0;; begin += stride) {
    const std::int64_t end = std::min(begin + context, tokens);
    windows.push_back({begin, end, std::max(scored_to, begin + 1)});
    scored_to = end;
    if (end == tokens) return windows;
  }
}

std::vector<Window> llama_cpp_windows(std::int64_t tokens, std::int64_t context) {
  std::vector<Window> windows;
  for (std::int64_t i = 0; i < tokens / context; ++i) {
    const std::int64_t begin = i * context;
    windows.push_back({begin, begin + context, begin + context / 2 + 1});
  }
  return windows;
}

std::vector<Window> llama_cpp_strided_windows(std::int64_t tokens, std::int64_t window, std::int64_t stride) {
  std::vector<Window> windows;
  for (std::int64_t begin = 0; begin + window < tokens; begin += stride)
    windows.push_back({begin, begin + window, begin + std::max<std::int64_t>(1, window - stride)});
  return windows;
}

std::vector<Window> lm_eval_windows(std::int64_t tokens, std::int64_t context, TokenId prefix) {
  std::vector<Window> windows;
  for (std::int64_t done = 0; done < tokens;) {
    const std::int64_t end = done + std::min(context, tokens - done);
    // The prefix stands before token 0: input i is the prefix or token i - 1.
    const std::int64_t first_input = std::max<std::int64_t>(0, end - context);
    Window window{.begin = std::max<std::int64_t>(0, first_input - 1), .end = end, .first_target = done};
    if (first_input == 0) window.before = prefix;
    window.has_last_input = false;
    windows.push_back(window);
    done = end;
  }
  return windows;
}

std::vector<Window> gptq_windows(std::int64_t tokens, std::int64_t context) {
  std::vector<Window> windows;
  for (std::int64_t i = 0; i < tokens / context; ++i)
    windows.push_back({i * context, (i + 1) * context, i * context + 1});
  return windows;
}

std::vector<Window> windows_of(const WindowRule& rule, std::int64_t tokens) {
  const bool is_each = rule.bos == BosRule::each;
  std::vector<Window> windows = windows_without_bos(rule, tokens, rule.context - (is_each ? 1 : 0));
  if (rule.protocol == Protocol::lm_eval) return windows;
  std::int64_t scored_to = 0;
  for (Window& window : windows) {
    if (is_each) {
      window.before = rule.bos_token.value();
      // The place within a window is what counts for llama.cpp, and there all tokens have moved by one. BOS
      // predicts a first token that no earlier window has scored.
      if (rule.protocol == Protocol::llama_cpp && !rule.stride)
        window.first_target = window.begin + rule.context / 2;
      else if (rule.protocol != Protocol::llama_cpp)
        window.first_target = std::max(scored_to, window.begin);
      scored_to = window.end;
    } else if (rule.bos == BosRule::replace && window.begin > 0) {
      window.instead = rule.bos_token.value();
    }
  }
  return windows;
}

std::string text_of(const WindowRule& rule) {
  std::string text = fmt::format("{} context={}", name_of(rule.protocol), rule.context);
  if (rule.stride) text += fmt::format(" stride={}", *rule.stride);
  if (rule.protocol == Protocol::lm_eval) text += fmt::format(" prefix={}", rule.bos_token.value());
  switch (rule.bos) {
    case BosRule::none:
      if (rule.protocol != Protocol::hf) text += " bos=none";
      break;
    case BosRule::first:
      if (rule.bos_token) text += fmt::format(" bos={}", *rule.bos_token);
      break;
    case BosRule::each:
    case BosRule::replace:
      text += fmt::format(" bos={}:{}", name_of(rule.bos), rule.bos_token.value());
      break;
  }
  return text;
}

}  // namespace assay
