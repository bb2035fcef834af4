#include "fire/matrix.h"
namespace afterimage::fire {
bool soak(const FireRun&, Duration) { return true; }
}  // namespace afterimage::fire
