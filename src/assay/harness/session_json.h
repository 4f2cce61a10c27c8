// What worker processes are asked and answer, as JSON.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "assay/backend/constants.h"
#include "assay/base/json_reader.h"
#include "assay/harness/worker_session.h"

namespace assay {

nlohmann::ordered_json to_json(const SessionFacts& facts);
nlohmann::ordered_json to_json(const CorpusLosses& losses);
// What to_json() wrote. Each throws Error naming the path of what is wrong.
SessionFacts session_facts_from_json(const JsonReader& json);

// Of a worker's load request.
nlohmann::ordered_json to_json(const KernelConstants& constants);
KernelConstants constants_from_json(const JsonReader& json);
CorpusLosses corpus_losses_from_json(const JsonReader& json);

// The worker's side of the protocol: answers facts, first_run, run, score and audit; null where `op` is none
// of them. Throws Error.
nlohmann::ordered_json answer_request(Session& session, const std::string& op, const JsonReader& request);

}  // namespace assay
