#include "support/documents.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/paths.h"
#include "support/schema_checker.h"

namespace assay::test {
namespace {

using Json = nlohmann::ordered_json;

// Read once: a suite starts the program many times.
const Json& schema_of(const std::string& kind) {
  static std::map<std::string, Json> schemas;
  const auto [at, is_new] = schemas.try_emplace(kind);
  if (is_new) {
    std::ifstream file(source_folder() + (kind == "results" ? "/docs/" : "/docs/schemas/") + kind +
                       ".schema.json");
    at->second = Json::parse(file, nullptr, false);
  }
  return at->second;
}

}  // namespace

void expect_document_of_its_schema(const std::string& out) {
  if (!out.starts_with("{")) return;
  const Json document = Json::parse(out, nullptr, false);
  if (!document.is_object() || !document.contains("schema")) return;
  const std::string name = document["schema"].get<std::string>();
  ASSERT_TRUE(name.starts_with("assay.")) << name;
  const Json& schema = schema_of(name.substr(6));
  ASSERT_TRUE(schema.is_object()) << "no schema describes " << name;
  EXPECT_EQ(SchemaChecker(schema).check(document, schema, name), "");
}

}  // namespace assay::test
