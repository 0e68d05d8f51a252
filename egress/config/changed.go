package config

import "reflect"

// Changed returns the keys that have other values in two configurations, such as
// "srv6.locator", in the order of the types. A list of tables counts as one key.
func Changed(had, now *File) []string {
	a, b := had.Common(), now.Common()
	switch {
	case a.Role != b.Role:
		return []string{"role"}
	case had.Border != nil:
		return changed(nil, "", reflect.ValueOf(*had.Border), reflect.ValueOf(*now.Border))
	default:
		return changed(nil, "", reflect.ValueOf(*had.Server), reflect.ValueOf(*now.Server))
	}
}

// changed appends the keys of two structs' fields that differ. Types that a value of a key can
// have are no tables, whatever fields they have.
func changed(keys []string, path string, a, b reflect.Value) []string {
	others := fieldsOf(b)
	for i, f := range fieldsOf(a) {
		key := join(path, f.name)
		_, scalar := readers[f.value.Type()]
		switch {
		case !scalar && f.value.Kind() == reflect.Struct:
			keys = changed(keys, key, f.value, others[i].value)
		case !reflect.DeepEqual(f.value.Interface(), others[i].value.Interface()):
			keys = append(keys, key)
		}
	}
	return keys
}
