// The documents that --json prints, beside their schemas in docs/schemas.
#pragma once

#include <string>

namespace assay::test {

// Fails the test where `out` is a document that names its schema and is not what the schema says. All else
// passes: text, lines, a document that was cut off.
void expect_document_of_its_schema(const std::string& out);

}  // namespace assay::test
