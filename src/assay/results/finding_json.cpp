#include "assay/results/finding_json.h"

#include <nlohmann/json.hpp>

#include "assay/base/format.h"
#include "assay/results/results_json.h"

namespace assay {

namespace {

using FindingJson = nlohmann::ordered_json;

template <typename T>
concept HasFields = requires(T value) {
  value.fields([](const char*, auto&) {});
};

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
FindingJson written(T value) {
  if constexpr (HasFields<T>) {
    FindingJson json = FindingJson::object();
    value.fields([&](const char* key, auto& own) { json[key] = written(own); });
    return json;
  } else if constexpr (IsVector<T>::value) {
    FindingJson json = FindingJson::array();
    for (const auto& item : value) json.push_back(written(item));
    return json;
  } else if constexpr (IsOptional<T>::value) {
    return value ? written(*value) : FindingJson(nullptr);
  } else if constexpr (std::is_same_v<T, Comparison> || std::is_same_v<T, NoiseEstimate>) {
    return to_json(value);
  } else {
    return FindingJson(value);
  }
}

template <typename T>
void read(const JsonReader& json, T& value) {
  if constexpr (HasFields<T>) {
    value.fields([&](const char* key, auto& own) {
      if constexpr (IsOptional<std::remove_reference_t<decltype(own)>>::value)
        if (!json.has(key)) return;
      read(json.at(key), own);
    });
  } else if constexpr (IsVector<T>::value) {
    for (const JsonReader& item : json.items()) read(item, value.emplace_back());
  } else if constexpr (IsOptional<T>::value) {
    read(json, value.emplace());
  } else if constexpr (std::is_same_v<T, Comparison>) {
    value = comparison_from_json(json);
  } else if constexpr (std::is_same_v<T, NoiseEstimate>) {
    value = noise_from_json(json);
  } else if constexpr (std::is_same_v<T, bool>) {
    value = json.boolean();
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = json.text();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    value = json.count<std::int64_t>();
  } else {
    static_assert(std::is_same_v<T, double>);
    value = json.number();
  }
}

// What a sentence takes for granted of a finding.
void check_finding(const JsonReader&, const auto&) {}
void check_finding(const JsonReader& json, const StepFit& fit) {
  const std::size_t count = fit.coefficients.size();
  if (count < StepFit::kFewest || count > StepFit::kMost)
    json.at("coefficients")
        .fail(fmt::format("expected {} or {} numbers, found {}", StepFit::kFewest, StepFit::kMost, count));
}

// Tries the kinds in their order.
template <std::size_t kAt = 0>
Finding read_kind(const std::string& kind, const JsonReader& json) {
  if constexpr (kAt == std::variant_size_v<Finding>) {
    json.at("kind").fail("this program knows no finding of this kind");
  } else {
    using Kind = std::variant_alternative_t<kAt, Finding>;
    if (kind != Kind::kKind) return read_kind<kAt + 1>(kind, json);
    Kind found;
    read(json, found);
    check_finding(json, found);
    return found;
  }
}

}  // namespace

FindingJson to_json(const Finding& finding) {
  return std::visit(
      [](const auto& found) {
        FindingJson json{{"kind", found.kKind}};
        json.update(written(found));
        return json;
      },
      finding);
}

Finding finding_from_json(const JsonReader& json) {
  return read_kind(json.at("kind").text(), json);
}

}  // namespace assay
