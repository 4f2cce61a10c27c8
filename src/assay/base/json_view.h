// Typed access to a JSON object whose errors name file and key. Light: the JSON library itself is not
// included.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace assay {

using Json = nlohmann::json;

// One object of a file, with the path to it for messages ("config.json: n_layer: expected ...").
class JsonView {
 public:
  // What a file calls the keys of an object that was made of it, where it is no JSON itself; keys of objects
  // inside it stand behind theirs and a dot.
  using KeyNames = std::map<std::string, std::string, std::less<>>;

  // `names`, if any, must outlive the view.
  JsonView(const Json& object, std::string where, const KeyNames* names = nullptr)
      : object_(&object), where_(std::move(where)), names_(names) {}

  bool has(std::string_view key) const;  // present and not null
  const Json& raw() const { return *object_; }
  const std::string& where() const { return where_; }
  // The key as the file calls it, and behind where(): what messages about a key begin with.
  std::string name_of(std::string_view key) const;
  std::string where(std::string_view key) const;

  // Each throws Error when the key is missing, of another type or out of range. `or_` forms return the
  // fallback when the key is missing or null.
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                          std::int64_t max) const;
  double number(std::string_view key) const;
  double number_or(std::string_view key, double fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string fallback) const;
  JsonView object(std::string_view key) const;

 private:
  const Json& at(std::string_view key) const;
  const Json* object_;
  std::string where_;
  const KeyNames* names_;
  std::string inside_ = {};  // the key and a dot of the object that this one is, inside the one with names
};

}  // namespace assay
