; What numba's kernels call in numba's own libraries, written anew: so that they hang on no version of numba, and can be inlined.

; numba's MemInfo: a reference count, two fields for destructors, the data, their size. Blocks of memory never leave the call of a
; kernel, so the count is not atomic.
%block = type { i64, ptr, ptr, ptr, i64 }

declare noalias ptr @poli_allocate(i64)
declare void @poli_free(ptr)

define noalias ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %alignment) {
  %align = zext i32 %alignment to i64
  %head = add i64 %align, 40
  %total = add i64 %size, %head
  %block = call ptr @poli_allocate(i64 %total)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %out, label %fill
fill:
  %start = ptrtoint ptr %block to i64
  %least = add i64 %start, 39
  %past = add i64 %least, %align
  %mask = sub i64 0, %align
  %place = and i64 %past, %mask
  %data = inttoptr i64 %place to ptr
  store i64 1, ptr %block
  %field = getelementptr %block, ptr %block, i64 0, i32 3
  store ptr %data, ptr %field
  br label %out
out:
  ret ptr %block
}

define ptr @NRT_MemInfo_data_fast(ptr %block) {
  %field = getelementptr %block, ptr %block, i64 0, i32 3
  %data = load ptr, ptr %field
  ret ptr %data
}

; Not inlined, as numba's are not: a pass of its own looks for pairs of these calls that can go.
define void @NRT_incref(ptr %block) noinline {
  %none = icmp eq ptr %block, null
  br i1 %none, label %out, label %count
count:
  %old = load i64, ptr %block
  %new = add i64 %old, 1
  store i64 %new, ptr %block
  br label %out
out:
  ret void
}

define void @NRT_decref(ptr %block) noinline {
  %none = icmp eq ptr %block, null
  br i1 %none, label %out, label %count
count:
  %old = load i64, ptr %block
  %new = sub i64 %old, 1
  store i64 %new, ptr %block
  %last = icmp eq i64 %new, 0
  br i1 %last, label %release, label %out
release:
  call void @poli_free(ptr %block)
  br label %out
out:
  ret void
}

; Strides of an array of another shape. Kernels ask for that only of arrays that are contiguous in C's order, where it is always possible.
define i32 @numba_attempt_nocopy_reshape(
    i64 %dims, ptr %shape, ptr %strides, i64 %new_dims, ptr %new_shape, ptr %new_strides, i64 %itemsize, i32 %fortran) {
entry:
  br label %test
test:
  %left = phi i64 [ %new_dims, %entry ], [ %axis, %step ]
  %stride = phi i64 [ %itemsize, %entry ], [ %following, %step ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %step, label %out
step:
  %axis = sub i64 %left, 1
  %there = getelementptr i64, ptr %new_strides, i64 %axis
  store i64 %stride, ptr %there
  %here = getelementptr i64, ptr %new_shape, i64 %axis
  %extent = load i64, ptr %here
  %following = mul i64 %stride, %extent
  br label %test
out:
  ret i32 1
}
