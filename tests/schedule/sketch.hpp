// Small schedules put together in a few lines, for the tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace syncline::test {

/// `ranks` ranks on one axis "pp", each with its own empty role "r0", "r1", ...; streams "s0", "s1", "s2";
/// one work; family "all" of all ranks, family "pairs" of 0,1 / 2,3 / ...
inline Schedule sketch(int ranks) {
  Schedule schedule;
  schedule.name = "sketch";
  schedule.meshes.emplace_back("dense", std::vector<MeshAxis>{{"pp", ranks}});
  schedule.families.push_back(GroupFamily::along("all", schedule.meshes.front(), {"pp"}));
  std::vector<std::vector<RankId>> pairs;
  for (int r = 0; r + 1 < ranks; r += 2)
    pairs.push_back({RankId(static_cast<std::size_t>(r)), RankId(static_cast<std::size_t>(r + 1))});
  schedule.families.push_back(GroupFamily::listed("pairs", ranks, pairs));
  schedule.streams = {"s0", "s1", "s2"};
  schedule.works.push_back({"w", {}});
  for (int r = 0; r < ranks; ++r) {
    schedule.roles.push_back({"r" + std::to_string(r), {}, {}});
    schedule.role_of.push_back(RoleId(static_cast<std::size_t>(r)));
  }
  return schedule;
}

inline const FamilyId All{0}, Pairs{1};

inline Tag tag(std::string name, int microbatch = -1) {
  Tag result;
  result.phase = Phase::Forward;
  result.microbatch = microbatch;
  result.name = std::move(name);
  return result;
}

inline Op op(OpBody body, std::size_t stream = 0, std::vector<OpIndex> after = {}, Tag label = {}) {
  Op result;
  result.body = std::move(body);
  result.stream = StreamId(stream);
  result.after = std::move(after);
  result.tag = std::move(label);
  return result;
}

inline Op compute(std::size_t stream = 0, std::vector<OpIndex> after = {}) {
  return op(Compute{WorkId(0)}, stream, std::move(after), tag("layer"));
}
inline Op collective(CollectiveKind kind, FamilyId family, double bytes, std::size_t stream = 0) {
  return op(Collective{kind, family, Algorithm::Auto, Bytes(bytes)}, stream, {}, tag("gather"));
}
inline Op send(int to, double bytes, std::size_t stream = 0, int microbatch = 0, bool eager = false) {
  return op(Send{{-1, to}, Bytes(bytes), 0, eager}, stream, {}, tag("send", microbatch));
}
inline Op receive(int from, double bytes, std::size_t stream = 0, int microbatch = 0, bool eager = false) {
  return op(Receive{{-1, from}, Bytes(bytes), 0, eager}, stream, {}, tag("receive", microbatch));
}
/// One sentence a line, as doctest can show it.
inline std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "\n") + sentence;
  return text;
}

inline Op host_wait(std::size_t awaited) {
  return op(HostWait{OpIndex(awaited)});
}
inline Op host_work(double seconds) {
  return op(HostWork{Seconds(seconds)});
}

}  // namespace syncline::test
