# Whether schedules can be executed on GPUs: nvcc, cuBLASLt and NCCL. No GPU and no driver are needed to build.
# Sets SYNCLINE_CUDA_FOUND, and makes syncline::nccl.
set(SYNCLINE_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where CUDA and NCCL are found), ON, OFF")
set(SYNCLINE_CUDA_FOUND OFF)
if(NOT SYNCLINE_CUDA OR SYNCLINE_SANITIZE)  # the sanitizers' memory layout is not the driver's
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)  # A100, H100; later ones translate it when it is loaded
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit 13 QUIET)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
endif()
if(CUDAToolkit_FOUND AND TARGET CUDA::cublasLt AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  set(SYNCLINE_CUDA_FOUND ON)
  add_library(syncline::nccl UNKNOWN IMPORTED)
  set_target_properties(syncline::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                                                  INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
elseif(SYNCLINE_CUDA STREQUAL "AUTO")
  message(STATUS "no CUDA 13 with cuBLASLt and NCCL: `syncline execute --backend cuda` is left out")
else()
  message(FATAL_ERROR "SYNCLINE_CUDA is ${SYNCLINE_CUDA}, but CUDA 13 with nvcc, cuBLASLt and NCCL was not found")
endif()
